"""What every transport promises of its connections and servers, over each kind of gRPC; `test_transports` has calls."""

import asyncio
import contextlib
import socket

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from replog.errors import ErrorCode, ReplogError
from replog.rpc import grpcio, limits, methods
from replog.rpc.grpcio.channel import CHANNEL_OPTIONS, GrpcChannel
from replog.rpc.http2.shells import client_connection, server_connection, socket_shell
from replog.rpc.http2.shells import server as h2_server
from replog.rpc.transports import GrpcTransport, H2Transport
from replog.rpc.v1 import log_pb2
from tests.replog.processes.proxy import proxy_to
from tests.replog.rpc.handlers import Handlers, ask, channel_to, error_of, produce_request, serving
from tests.replog.rpc.http2.raw import PREFACE, settings

S = 60.0
PATIENCE_S = 40.0  # by itself gRPC waits a minute for the answer to a ping
PRODUCE = methods.Log["produce"]


@pytest.fixture(params=[GrpcTransport(), H2Transport()], ids=["grpcio", "h2"])
def transport(request):
    return request.param


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent peer is given up ten times as fast as it really is."""
    waits = {"grpc.keepalive_time_ms", "grpc.http2.ping_timeout_ms"}
    faster = tuple((name, value // 10 if name in waits else value) for name, value in CHANNEL_OPTIONS)
    monkeypatch.setattr(GrpcChannel, "OPTIONS", faster)
    monkeypatch.setattr(client_connection, "SILENCE_S", client_connection.SILENCE_S / 10)
    monkeypatch.setattr(socket_shell, "ANSWER_S", socket_shell.ANSWER_S / 10)


@pytest.mark.usefixtures("impatient")
async def test_a_connection_whose_peer_answers_no_ping_is_given_up_and_made_again_when_it_does(transport):
    """TCP still acknowledges what is sent, as for a process that is paused."""
    async with (
        serving(Handlers(), methods.LOG, transport=transport) as address,
        proxy_to(address) as link,
        channel_to(link.address, transport) as channel,
    ):
        stream = channel.open(PRODUCE)
        await stream.send(produce_request(7))
        assert await stream.receive(PATIENCE_S) is not None
        link.cut()
        assert (await error_of(stream.receive(PATIENCE_S))).code is ErrorCode.NETWORK_EXCEPTION
        link.heal()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(ReplogError):  # of grpcio, which may lose calls until the old one has closed
                    assert await ask(channel, "a") == ["a"]
                    break
                await asyncio.sleep(0.05)


async def test_a_stream_whose_connection_is_gone_can_be_finished(transport):
    async with serving(Handlers(), methods.LOG, transport=transport) as address:
        channel = transport.connect(address)
        stream = channel.open(PRODUCE)
        await stream.send(produce_request(1))
        assert await stream.receive(S) is not None
        await channel.close()
        with contextlib.suppress(ReplogError):
            await stream.finish()


async def test_who_is_cancelled_while_its_stream_opens_is_cancelled_though_the_stream_is_given_up_too(transport):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with channel_to(f"127.0.0.1:{silent.getsockname()[1]}", transport) as channel:
            stream = channel.open(PRODUCE)
            reading = asyncio.create_task(stream.each(print))
            await asyncio.sleep(0)
            stream.cancel()
            reading.cancel()
            await asyncio.wait((reading,))
            assert reading.cancelled()


async def test_a_connection_is_waited_for(transport):
    """One that is as slow to be made as on a busy machine, or to one that is far away."""
    async with (
        serving(Handlers(), methods.LOG, transport=transport) as address,
        proxy_to(address) as far,
        channel_to(far.address, transport) as channel,
    ):
        far.cut()
        asyncio.get_running_loop().call_later(0.4, far.heal)
        assert await ask(channel, "a") == ["a"]


async def test_a_server_at_an_ipv6_address_in_brackets_is_reached_and_knows_who_asks(transport):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
    server, handlers = transport.listen("[::1]:0"), Handlers()
    server.add(methods.LOG, handlers)
    address = await server.start()
    try:
        assert address.startswith("[::1]:")
        assert not await transport.is_refused(address, S)
        async with channel_to(address, transport) as channel:
            assert await ask(channel, "a") == ["a"]
        assert [peer.host for peer in handlers.peers] == ["::1"]
    finally:
        await server.stop(0)
    assert await transport.is_refused(address, S)


async def test_whoever_waits_on_a_server_that_stops_is_told_that_it_is_unavailable(transport):
    """Any gRPC client tries another server then, and this one later."""
    server, handlers = transport.listen("127.0.0.1:0"), Handlers()
    server.add(methods.LOG, handlers)
    call = methods.Log["get_metadata"]
    async with grpc.aio.insecure_channel(await server.start()) as channel:
        idle = channel.stream_stream(PRODUCE.path, PRODUCE.encode_request, PRODUCE.decode_response)()
        await idle.write(produce_request(1))
        await idle.read()
        handlers.delay_s = 600.0
        waiting = channel.unary_unary(call.path, call.encode_request)(log_pb2.GetMetadataRequest())
        while len(handlers.asked) < 2:
            await asyncio.sleep(0.01)
        await server.stop(0.1)
        assert [await waiting.code(), await idle.code()] == [grpc.StatusCode.UNAVAILABLE] * 2


async def test_any_grpc_client_may_ask_for_the_health_of_the_whole_and_of_a_service(transport):
    async with (
        serving(Handlers(), methods.LOG, transport=transport) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        for name in ("", "replog.v1.Log"):
            response = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name))
            assert response.status == health_pb2.HealthCheckResponse.SERVING


def _options(name: str, value: int) -> tuple[tuple[str, int], ...]:
    assert name in dict(grpcio.server.SERVER_OPTIONS)
    return tuple((known, value if known == name else usual) for known, usual in grpcio.server.SERVER_OPTIONS)


async def test_streams_of_one_connection_beyond_its_limit_wait_and_are_not_refused(transport, monkeypatch):
    monkeypatch.setattr(grpcio.server, "SERVER_OPTIONS", _options("grpc.max_concurrent_streams", 3))
    monkeypatch.setattr(server_connection, "MAX_STREAMS", 3)
    async with (
        serving(Handlers(), methods.LOG, transport=transport) as address,
        channel_to(address, transport) as channel,
    ):
        await ask(channel, "a")
        streams = [channel.open(PRODUCE) for _ in range(3)]
        for stream in streams:
            await stream.send(produce_request(1))
        waiting = asyncio.create_task(ask(channel, "a"))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        streams.pop().cancel()
        await waiting
        for stream in streams:
            stream.cancel()


async def test_a_connection_beyond_the_limit_is_closed(transport, monkeypatch):
    monkeypatch.setattr(grpcio.server, "SERVER_OPTIONS", _options("grpc.max_allowed_incoming_connections", 3))
    monkeypatch.setattr(h2_server, "MAX_CONNECTIONS", 3)
    async with serving(Handlers(), methods.LOG, transport=transport) as address:
        connections = [await asyncio.open_connection(*address.split(":")) for _ in range(4)]
        for _, writer in connections:
            writer.write(PREFACE + settings({}))
        greetings = [asyncio.create_task(_greeting(reader)) for reader, _ in connections]
        async with asyncio.timeout(S):
            assert sorted([len(await greeting) for greeting in greetings]) == [0, 1, 1, 1]
        for _, writer in connections:
            writer.close()


async def _greeting(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1)
    except ConnectionError:
        return b""


async def test_a_message_may_have_16_mib_and_a_larger_one_is_refused_before_a_handler_sees_it(transport):
    handlers = Handlers()
    async with (
        serving(handlers, methods.LOG, transport=transport) as address,
        channel_to(address, transport) as channel,
    ):
        for size, fits in ((limits.MAX_REQUEST_BYTES - 100, True), (limits.MAX_REQUEST_BYTES + 1, False)):
            stream = channel.open(PRODUCE)
            with contextlib.nullcontext() if fits else pytest.raises(ReplogError):
                await stream.send(produce_request(1, bytes(size)))
                assert await stream.receive(S) is not None
            stream.cancel()
        assert len(handlers.asked) == 1
        assert await ask(channel, "a") == ["a"], "the connection goes on"
