"""A connection that leads nowhere any more, and one that is alive."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.grpcio.options import CHANNEL_OPTIONS
from replog.rpc.http2 import client_wire, wire
from replog.rpc.transport import Channel
from replog.rpc.transports import TRANSPORTS, transport_named
from tests.replog.processes.proxy import CHUNK, Proxy, proxy_to
from tests.replog.rpc.handlers import Handlers, ask, channel_to, produce_request, serving

PATIENCE_S = 40.0  # by itself gRPC waits a minute for the answer to a ping


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent peer is given up ten times as fast as it really is."""
    waits = {"grpc.keepalive_time_ms", "grpc.http2.ping_timeout_ms"}
    faster = tuple((name, value // 10 if name in waits else value) for name, value in CHANNEL_OPTIONS)
    monkeypatch.setattr("replog.rpc.grpcio.channel.CHANNEL_OPTIONS", faster)
    monkeypatch.setattr(client_wire, "SILENCE_S", client_wire.SILENCE_S / 10)
    monkeypatch.setattr(wire, "ANSWER_S", wire.ANSWER_S / 10)


@pytest.mark.usefixtures("impatient")
async def test_a_connection_whose_peer_answers_no_ping_is_given_up(transport):
    """TCP still acknowledges what is sent, as for a process that is paused."""
    async with (
        serving(Handlers(), methods.LOG, transport=transport) as address,
        proxy_to(address) as link,
        channel_to(link.address, transport) as channel,
    ):
        stream = channel.open(methods.Log["produce"])
        await stream.send(produce_request(7))
        answer = await stream.receive(PATIENCE_S)
        assert answer is not None
        assert answer.answers[0].correlation_id == 7
        link.cut()
        with pytest.raises(ReplogError) as gone:
            await stream.receive(PATIENCE_S)
        assert gone.value.code is ErrorCode.NETWORK_EXCEPTION


async def answered(channel: Channel) -> list[str]:
    """The first answer over grpcio, which may lose calls on a connection that it gave up until it has closed it."""
    while True:
        try:
            return await ask(channel, "a")
        except ReplogError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            await asyncio.sleep(0.05)


@pytest.mark.processes
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_process_that_is_paused_is_given_up_and_found_again_when_it_goes_on(name):
    command = [sys.executable, "-m", "tests.replog.rpc.peer", name]
    peer = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert peer.stdout is not None
        address = (await peer.stdout.readline()).decode().strip()
        async with channel_to(address, transport_named(name)) as channel:
            stream = channel.open(methods.Log["produce"])
            await stream.send(produce_request(7))
            assert await stream.receive(PATIENCE_S) is not None
            peer.send_signal(signal.SIGSTOP)
            with pytest.raises(ReplogError) as gone:
                await stream.receive(PATIENCE_S)
            assert gone.value.code is ErrorCode.NETWORK_EXCEPTION
            peer.send_signal(signal.SIGCONT)
            async with asyncio.timeout(PATIENCE_S):
                assert await (answered(channel) if name == "grpcio" else ask(channel, "a")) == ["a"]
    finally:
        peer.kill()
        await peer.communicate()


class Recorder(Proxy):
    """What passes in each direction of each connection."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.passed: list[bytearray] = []

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int | None) -> None:
        self.passed.append(passed := bytearray())
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(CHUNK):
                    passed += data
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, PING = 0, 6


def frames(passed: bytearray) -> list[int]:
    """Their types."""
    types, left = [], memoryview(bytes(passed).removeprefix(PREFACE))
    while len(left) >= 9:
        types.append(left[3])
        left = left[9 + int.from_bytes(left[:3], "big") :]
    return types


async def test_nobody_asks_a_stream_that_is_used_whether_it_is_alive(transport):
    """Each ping wakes both processes once more, and idle brokers have nothing else to do."""
    async with serving(Handlers(), methods.LOG, transport=transport) as address:
        link = Recorder(address)
        await link.start()
        async with channel_to(link.address, transport) as channel:
            stream = channel.open(methods.Log["produce"])
            for number in range(50):
                await stream.send(produce_request(number))
                assert await stream.receive(PATIENCE_S) is not None
                await asyncio.sleep(0.02)
            kinds = [frames(passed) for passed in link.passed]  # a server that stops sends one
        await link.close()
    assert [passed.count(DATA) >= 50 for passed in kinds] == [True, True]
    assert max(passed.count(PING) for passed in kinds) < 5, kinds


async def test_a_stream_whose_connection_is_gone_can_be_finished(transport):
    async with serving(Handlers(), methods.LOG, transport=transport) as address:
        channel = transport.connect(address)
        stream = channel.open(methods.Log["produce"])
        await stream.send(produce_request(1))
        assert await stream.receive(60.0) is not None
        await channel.close()
        with contextlib.suppress(ReplogError):
            await stream.finish()


async def test_who_is_cancelled_while_its_stream_opens_is_cancelled_though_the_stream_is_given_up_too(transport):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with channel_to(f"127.0.0.1:{silent.getsockname()[1]}", transport) as channel:
            stream = channel.open(methods.Log["produce"])
            reading = asyncio.create_task(stream.each(print))
            await asyncio.sleep(0)
            stream.cancel()
            reading.cancel()
            await asyncio.wait((reading,))
            assert reading.cancelled()
