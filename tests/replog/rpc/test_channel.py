"""A connection that leads nowhere any more."""

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.channel import GrpcChannel
from replog.rpc.codec import WithRecords
from replog.rpc.options import CHANNEL_OPTIONS
from replog.rpc.server import GrpcServer
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import log_pb2
from tests.cluster.proxy import proxy_to

PATIENCE_S = 40.0  # by itself gRPC waits a minute for the answer to a ping


class Echo:
    async def produce(self, stream: ServerStream) -> None:
        while (request := await stream.receive()) is not None:
            answer = log_pb2.ProduceAnswer(correlation_id=request.head.correlation_id)
            await stream.send(log_pb2.ProduceResponse(answers=[answer]))

    def __getattr__(self, name: str) -> object:
        return self.produce


async def test_a_connection_whose_peer_answers_no_ping_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """TCP still acknowledges what is sent, as for a process that is paused. Ten times as fast as it really is."""
    waits = {"grpc.keepalive_time_ms", "grpc.http2.ping_timeout_ms"}
    faster = tuple((name, value // 10 if name in waits else value) for name, value in CHANNEL_OPTIONS)
    monkeypatch.setattr("replog.rpc.channel.CHANNEL_OPTIONS", faster)
    server = GrpcServer("127.0.0.1:0")
    server.add(methods.LOG, Echo())
    async with proxy_to(await server.start()) as link:
        channel = GrpcChannel(link.address)
        stream = channel.open(methods.Log["produce"])
        await stream.send(WithRecords(log_pb2.ProduceRequest(correlation_id=7)))
        answer = await stream.receive(PATIENCE_S)
        assert answer is not None
        assert answer.answers[0].correlation_id == 7
        link.cut()
        try:
            with pytest.raises(ReplogError) as gone:
                await stream.receive(PATIENCE_S)
        finally:
            await channel.close()
            await server.stop(0)
        assert gone.value.code is ErrorCode.NETWORK_EXCEPTION
