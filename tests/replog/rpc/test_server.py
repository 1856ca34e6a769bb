"""Channel and server against each other, over real gRPC on loopback."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.channel import GrpcChannel
from replog.rpc.codec import WithRecords
from replog.rpc.server import GrpcServer
from replog.rpc.status import to_status
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import controller_pb2, log_pb2


class Controller:
    """Handlers that show each shape of a call."""

    async def register_broker(self, request: controller_pb2.RegisterBrokerRequest) -> object:
        raise ReplogError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"broker {request.broker_id} lives")

    async def heartbeat(self, request: controller_pb2.HeartbeatRequest) -> object:
        await asyncio.sleep(60)
        raise AssertionError("not reached")

    async def alter_partition(self, request: controller_pb2.AlterPartitionRequest) -> object:
        raise KeyError("a defect")

    async def watch_metadata(self, request: controller_pb2.WatchMetadataRequest) -> AsyncIterator[object]:
        for version in range(request.after_version + 1, request.after_version + 4):
            yield controller_pb2.MetadataDelta(version=version)
        raise ReplogError(ErrorCode.NOT_CONTROLLER, "enough")

    async def create_topic(self, request: controller_pb2.CreateTopicRequest) -> object:
        return controller_pb2.CreateTopicResponse(partitions=request.partitions)

    def __getattr__(self, name: str) -> object:
        return self.create_topic


class Log:
    async def produce(self, stream: ServerStream) -> None:
        while (request := await stream.receive()) is not None:
            size = sum(len(piece) for piece in request.records)
            answer = log_pb2.ProduceAnswer(correlation_id=request.head.correlation_id + size)
            await stream.send(log_pb2.ProduceResponse(answers=[answer]))

    async def fetch(self, stream: ServerStream) -> None:
        await stream.receive()
        raise ReplogError(ErrorCode.OFFSET_OUT_OF_RANGE, "no such offset")

    def __getattr__(self, name: str) -> object:
        return self.produce


@pytest.fixture
async def server() -> AsyncIterator[str]:
    server = GrpcServer("127.0.0.1:0")
    server.add(methods.CONTROLLER, Controller())
    server.add(methods.LOG, Log())
    address = await server.start()
    await server.set_serving(True)
    yield address
    await server.stop(0)


@pytest.fixture
async def channel(server: str) -> AsyncIterator[GrpcChannel]:
    channel = GrpcChannel(server)
    yield channel
    await channel.close()


async def test_a_call_is_answered(channel: GrpcChannel) -> None:
    request = controller_pb2.CreateTopicRequest(topic="t", partitions=3)
    response = await channel.call(methods.Controller["create_topic"], request, 60)
    assert response.partitions == 3


async def test_an_error_arrives_as_it_was_raised(channel: GrpcChannel) -> None:
    with pytest.raises(ReplogError) as raised:
        request = controller_pb2.RegisterBrokerRequest(broker_id=4)
        await channel.call(methods.Controller["register_broker"], request, 60)
    assert raised.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert raised.value.message == "broker 4 lives"


async def test_a_defect_arrives_as_unknown_server_error(channel: GrpcChannel) -> None:
    with pytest.raises(ReplogError, match="a defect") as raised:
        await channel.call(methods.Controller["alter_partition"], controller_pb2.AlterPartitionRequest(), 60)
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_whoever_waits_on_a_server_that_stops_is_told_that_it_is_unavailable() -> None:
    """Any gRPC client tries another server then, and this one later."""
    server = GrpcServer("127.0.0.1:0")
    server.add(methods.CONTROLLER, Controller())
    server.add(methods.LOG, Log())
    address = await server.start()
    call, stream = methods.Controller["heartbeat"], methods.Log["produce"]
    async with grpc.aio.insecure_channel(address) as channel:
        waiting = channel.unary_unary(call.path, call.encode_request)(controller_pb2.HeartbeatRequest())
        idle = channel.stream_stream(stream.path, stream.encode_request, stream.decode_response)()
        await idle.write(WithRecords(log_pb2.ProduceRequest(), ()))
        await idle.read()
        await server.stop(0.1)
        assert [await waiting.code(), await idle.code()] == [grpc.StatusCode.UNAVAILABLE] * 2


@pytest.mark.parametrize("code", [ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NOT_CONTROLLER])
def test_so_is_whoever_asks_one_that_is_starting(code: ErrorCode) -> None:
    assert to_status(ReplogError(code, "starting")).code is grpc.StatusCode.UNAVAILABLE


async def test_a_call_without_answer_times_out(channel: GrpcChannel) -> None:
    with pytest.raises(ReplogError) as raised:
        await channel.call(methods.Controller["heartbeat"], controller_pb2.HeartbeatRequest(), 0.2)
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_connection_is_waited_for(server: str) -> None:
    """One that is as slow to be made as on a busy machine, or to one that is far away."""
    host, port = server.split(":")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.4)
        theirs_in, theirs_out = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_pass_on(reader, theirs_out), _pass_on(theirs_in, writer))

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as far:
        channel = GrpcChannel(f"127.0.0.1:{far.sockets[0].getsockname()[1]}")
        request = controller_pb2.CreateTopicRequest(topic="t", partitions=3)
        assert (await channel.call(methods.Controller["create_topic"], request, 60)).partitions == 3
        await channel.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


async def test_an_address_where_nobody_listens_is_a_network_exception() -> None:
    channel = GrpcChannel("127.0.0.1:1")
    with pytest.raises(ReplogError) as raised:
        await channel.call(methods.Controller["create_topic"], controller_pb2.CreateTopicRequest(), 60)
    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
    assert "127.0.0.1:1" in raised.value.message
    await channel.close()


async def test_a_watch_gives_every_message_and_then_its_error(channel: GrpcChannel) -> None:
    versions = []
    with pytest.raises(ReplogError, match="enough"):
        request = controller_pb2.WatchMetadataRequest(after_version=5)
        async for delta in channel.watch(methods.Controller["watch_metadata"], request):
            versions.append(delta.version)
    assert versions == [6, 7, 8]


async def test_a_stream_carries_records_both_ways(channel: GrpcChannel) -> None:
    stream = channel.open(methods.Log["produce"])
    for correlation_id in (100, 200):
        await stream.send(WithRecords(log_pb2.ProduceRequest(correlation_id=correlation_id), (b"abc", b"de")))
        response = await stream.receive(5)
        assert response is not None
        assert [answer.correlation_id for answer in response.answers] == [correlation_id + 5]
    stream.cancel()


async def test_a_stream_ends_with_the_servers_error(channel: GrpcChannel) -> None:
    stream = channel.open(methods.Log["fetch"])
    await stream.send(log_pb2.FetchRequest())
    with pytest.raises(ReplogError) as raised:
        await stream.receive(5)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_silent_stream_times_out(channel: GrpcChannel) -> None:
    stream = channel.open(methods.Log["produce"])
    with pytest.raises(ReplogError) as raised:
        await stream.receive(0.2)
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_malformed_request_is_refused_by_name(server: str) -> None:
    async with grpc.aio.insecure_channel(server) as channel:
        call = channel.unary_unary("/replog.v1.Controller/CreateTopic")
        with pytest.raises(grpc.RpcError) as raised:
            await call(b"\xff\xff\xff", timeout=5)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "the message is not what this method takes" in raised.value.details()


async def test_health_and_reflection_are_served(server: str) -> None:
    async with grpc.aio.insecure_channel(server) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "replog.v1.Controller"):
            response = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
            assert response.status == health_pb2.HealthCheckResponse.SERVING

    def services() -> set[str]:
        with grpc.insecure_channel(server) as blocking:
            return set(ProtoReflectionDescriptorDatabase(blocking).get_services())

    assert await asyncio.to_thread(services) >= {"replog.v1.Controller", "replog.v1.Log", "grpc.health.v1.Health"}


async def test_a_port_in_use_is_named(server: str) -> None:
    other = GrpcServer(server)
    with pytest.raises(ReplogError, match=f"cannot listen on {server}: the port is in use") as raised:
        await other.start()
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    await other.stop(0)


async def test_a_finished_stream_still_delivers_what_was_sent_and_is_answered(channel: GrpcChannel) -> None:
    stream = channel.open(methods.Log["produce"])
    for number in range(20):
        await stream.send(WithRecords(log_pb2.ProduceRequest(correlation_id=number)))
    await stream.finish()
    answers = []
    while (response := await stream.receive(5)) is not None:
        answers += [answer.correlation_id for answer in response.answers]
    assert answers == list(range(20))
