"""What all connections of a server may have in its memory together, and who has to go when that is full."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from benchmarks.attackers import unfinished
from replog.errors import ErrorCode, ReplogError
from replog.rpc import limits, methods
from replog.rpc.codec import pieces_of
from replog.rpc.http2.protocol.frames import ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE, PREFACE
from replog.rpc.http2.protocol.hpack import encode_fields
from replog.rpc.http2.shells.calls import request_fields
from replog.rpc.http2.shells.server import H2Server
from replog.rpc.limits import MIB
from replog.rpc.transport import Channel, Stream
from tests.replog.rpc.handlers import Handlers, ask, channel_to, listening, produce_request, until
from tests.replog.rpc.http2.raw import data, headers, message, reset, settings

S = 60.0
MOST = 8 * MIB
PRODUCE = methods.Log["produce"]


class Served(NamedTuple):
    server: H2Server
    handlers: Handlers
    address: str
    other: Channel  # of a client who does nothing wrong

    @property
    def held(self) -> int:
        return sum(connection.held for connection in self.server._connections)


@pytest.fixture
async def served(monkeypatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(limits, "MAX_UNREAD_BYTES", MOST)
    server, handlers = H2Server("127.0.0.1:0"), Handlers()
    async with listening(server, handlers, methods.LOG) as address, channel_to(address) as other:
        yield Served(server, handlers, address, other)


async def test_messages_of_many_connections_that_do_not_end_give_way_and_a_client_beside_them_notices_nothing(served):
    stream = served.other.open(PRODUCE)
    async with unfinished(served.address, PRODUCE.path, 5, MIB) as old:
        await asyncio.sleep(0.2)
        for number in range(30):
            async with unfinished(served.address, PRODUCE.path, 1, MIB // 2):
                await stream.send(produce_request(number, bytes(MIB)))
                answer = await stream.receive(S)
                assert answer.answers[0].correlation_id == number
                assert served.held <= MOST
                assert await ask(served.other, "a") == ["a"]
        assert not any(message.refused for message in old), "room was there"
        async with unfinished(served.address, PRODUCE.path, 20, 3 * MIB // 2) as new:
            await stream.send(produce_request(100, bytes(MIB // 16)))  # also where a busy machine takes long over it
            assert (await stream.receive(S)).answers[0].correlation_id == 100
            await until(lambda: all(message.refused for message in old))  # they have cost most
            await until(lambda: any(message.refused for message in new))
            assert MOST / 2 < served.held <= MOST
            assert not all(message.refused for message in new)
    stream.cancel()


async def test_messages_that_no_handler_takes_count_and_their_callers_may_try_again(served):
    served.handlers.delay_s = S
    async with contextlib.AsyncExitStack() as opened:
        streams: list[Stream] = []
        for _ in range(12):
            channel = await opened.enter_async_context(channel_to(served.address))
            streams.append(channel.open(PRODUCE))
        for number in range(2):  # the handler takes the first, and never the second
            for stream in streams:
                await stream.send(produce_request(number, bytes(MIB)))
        reading = [asyncio.create_task(stream.receive()) for stream in streams]
        done, waiting = await asyncio.wait(reading, timeout=S, return_when=asyncio.FIRST_COMPLETED)
        assert served.held <= MOST
        assert done
        assert waiting
        error = done.pop().exception()
        assert isinstance(error, ReplogError)
        assert error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert error.retriable
        assert f"fill the {MOST} bytes" in error.message
        for task in waiting:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


async def test_a_stream_whose_end_cannot_go_out_lets_go_of_its_messages_too(served):
    """Its answers wait for a window that never opens, and so would its status."""
    reader, writer = await asyncio.open_connection(*served.address.split(":"))
    request = message(b"".join(pieces_of(PRODUCE.encode_request, produce_request(1, b"x"))))
    fields = request_fields(PRODUCE.path, "here", None)
    writer.write(PREFACE + settings({INITIAL_WINDOW_SIZE: 0}) + headers(1, block=encode_fields(fields)))
    writer.write(data(1, request) + data(1, message(bytes(MIB))[:100_000]))
    await until(lambda: served.held >= 100_000)
    (connection,) = served.server._connections
    await until(lambda: connection.http2.waiting(1))
    connection.refuse(1, ReplogError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "go"))
    assert served.held == 0
    async with asyncio.timeout(S):
        assert await reader.readuntil(reset(1, ENHANCE_YOUR_CALM))
    writer.close()
