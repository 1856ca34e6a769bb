"""A burst of events wakes the loop once, and none is lost."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.grpcio.channel import GrpcChannel, GrpcTransport
from replog.rpc.grpcio.wake_ups import take_together, unread
from replog.rpc.v1 import presence_pb2
from tests.replog.rpc.handlers import channel_to, serving

CALLS = 100
S = 60.0


class Wakings:
    """What gRPC is given for the running loop: its socket, and how often the loop was told of it."""

    def __init__(self) -> None:
        self.count = 0
        self.socket: Any = None
        loop = asyncio.get_running_loop()
        add_reader = loop.add_reader

        def add(reading: Any, handle: Callable[..., object], *arguments: object) -> None:
            self.socket = reading

            def counted() -> None:
                self.count += 1
                handle(*arguments)

            add_reader(reading, counted)

        loop.add_reader = add  # type: ignore[method-assign, assignment]
        take_together()


def ask(channel: GrpcChannel) -> "asyncio.Task[Any]":
    return asyncio.create_task(channel.call(methods.Presence["are_you"], presence_pb2.AreYouRequest(), S))


async def test_a_hundred_events_that_came_meanwhile_wake_the_loop_once():
    wakings = Wakings()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        channel = GrpcChannel(f"127.0.0.1:{listening.getsockname()[1]}")
        calls = [ask(channel) for _ in range(CALLS)]
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        connection, _ = await asyncio.wait_for(loop.sock_accept(listening), S)
    connection.close()  # before it said a word: the calls that wait for it fail together
    deadline = time.monotonic() + S
    while unread(wakings.socket) < CALLS // 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)  # noqa: ASYNC251 (the loop is busy)
    wakings.count = 0
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    while unread(wakings.socket):
        await asyncio.sleep(0)
    assert wakings.count < CALLS // 5
    assert {outcome.code for outcome in outcomes if isinstance(outcome, ReplogError)} == {ErrorCode.NETWORK_EXCEPTION}
    assert len(outcomes) == CALLS
    await channel.close()


class Present:
    async def are_you(self, _request: object) -> object:
        return presence_pb2.AreYouResponse()


async def test_of_thousands_of_calls_each_is_answered():
    take_together()
    grpcio = GrpcTransport()
    async with (
        serving(Present(), methods.PRESENCE, transport=grpcio) as address,
        channel_to(address, grpcio) as channel,
    ):
        for _ in range(50):
            assert len(await asyncio.gather(*(ask(channel) for _ in range(50)))) == 50
