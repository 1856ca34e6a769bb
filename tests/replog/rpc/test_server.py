"""What a server is to any gRPC client, and how a channel waits for a connection; `test_transports` has the rest."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from replog.rpc import methods
from replog.rpc.transport import Transport
from replog.rpc.v1 import log_pb2
from tests.replog.processes.proxy import proxy_to
from tests.replog.rpc.handlers import Handlers, ask, channel_to, produce_request, serving


@pytest.fixture
async def server(transport: Transport) -> AsyncIterator[str]:
    async with serving(Handlers(), methods.LOG, methods.INSPECTION, transport=transport) as address:
        yield address


async def test_whoever_waits_on_a_server_that_stops_is_told_that_it_is_unavailable(transport):
    """Any gRPC client tries another server then, and this one later."""
    server, handlers = transport.listen("127.0.0.1:0"), Handlers()
    server.add(methods.LOG, handlers)
    call, stream = methods.Log["get_metadata"], methods.Log["produce"]
    async with grpc.aio.insecure_channel(await server.start()) as channel:
        idle = channel.stream_stream(stream.path, stream.encode_request, stream.decode_response)()
        await idle.write(produce_request(1))
        await idle.read()
        handlers.delay_s = 600.0
        waiting = channel.unary_unary(call.path, call.encode_request)(log_pb2.GetMetadataRequest())
        while len(handlers.asked) < 2:
            await asyncio.sleep(0.01)
        await server.stop(0.1)
        assert [await waiting.code(), await idle.code()] == [grpc.StatusCode.UNAVAILABLE] * 2


async def test_a_connection_is_waited_for(server, transport):
    """One that is as slow to be made as on a busy machine, or to one that is far away."""
    async with proxy_to(server) as far, channel_to(far.address, transport) as channel:
        far.cut()
        asyncio.get_running_loop().call_later(0.4, far.heal)
        assert await ask(channel, "a") == ["a"]


async def test_a_malformed_request_is_refused_by_name(server):
    async with grpc.aio.insecure_channel(server) as channel:
        call = channel.unary_unary("/replog.v1.Log/GetMetadata")
        with pytest.raises(grpc.RpcError) as raised:
            await call(b"\xff\xff\xff", timeout=5)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "the message is not what this method takes" in raised.value.details()


async def test_health_is_served(server):
    async with grpc.aio.insecure_channel(server) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "replog.v1.Log"):
            response = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
            assert response.status == health_pb2.HealthCheckResponse.SERVING
