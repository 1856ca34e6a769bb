"""A client and a server that talk over the simulated network."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from cluster.simulation.chance import Chance
from cluster.simulation.loop import SimulatedLoop
from cluster.simulation.network import Network
from cluster.simulation.process import SimulatedProcess
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import inspection_pb2, log_pb2

ADDRESS = "broker-1:9092"


class Handlers:
    """Everything a test wants of a server: what it was asked, and answers of each shape."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.ended: list[str] = []
        self.delay_s = 0.0
        self.error: Exception | None = None

    async def get_metadata(self, request: log_pb2.GetMetadataRequest) -> log_pb2.GetMetadataResponse:
        self.asked.append(list(request.topics))
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        if self.error is not None:
            raise self.error
        return log_pb2.GetMetadataResponse(topics=[log_pb2.TopicMetadata(topic=name) for name in request.topics])

    async def produce(self, stream: ServerStream) -> None:
        try:
            while (request := await stream.receive()) is not None:
                self.asked.append((request.head.correlation_id, [bytes(piece) for piece in request.records]))
                await asyncio.sleep(self.delay_s)
                if self.error is not None:
                    raise self.error
                answer = log_pb2.ProduceAnswer(correlation_id=request.head.correlation_id)
                await stream.send(log_pb2.ProduceResponse(answers=[answer]))
            self.ended.append("finished")
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise

    async def read_file(self, _: inspection_pb2.ReadFileRequest) -> AsyncIterator[Any]:
        try:
            for i in range(1000):
                self.asked.append(i)
                yield WithRecords(inspection_pb2.ReadFileResponse(position=i))
        finally:
            self.ended.append("closed")

    def __getattr__(self, name: str) -> Any:
        async def not_here(_: Any) -> None:
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"no {name} here")

        return not_here


class Pair:
    """A client and a server."""

    def __init__(self, seed: int = 1) -> None:
        self.chance = Chance(seed)
        self.loop = SimulatedLoop(self.chance)
        self.network = Network(self.loop, self.chance)
        self.client = SimulatedProcess("client-1")
        self.handlers = Handlers()
        self.start()
        self.channel = self.network.transport(self.client).connect(ADDRESS)

    def start(self) -> None:
        self.server = SimulatedProcess("broker-1")
        listening = self.network.transport(self.server).listen(ADDRESS)
        listening.add(methods.LOG, self.handlers)
        listening.add(methods.INSPECTION, self.handlers)
        self.listening = listening
        assert self.loop.run_until_complete(self.loop.spawn(self.server, listening.start())) == ADDRESS

    def run(self, work: Awaitable[Any], limit_s: float = 60.0) -> Any:
        task = self.loop.spawn(self.client, work)  # type: ignore[arg-type]
        assert self.loop.run_until(task.done, self.loop.time() + limit_s), "it takes too long"
        return task.result()

    async def ask(self, *topics: str, timeout_s: float = 5.0) -> list[str]:
        request = log_pb2.GetMetadataRequest(topics=topics)
        answer = await self.channel.call(methods.Log["get_metadata"], request, timeout_s)
        return [topic.topic for topic in answer.topics]


def produce_request(number: int, *records: bytes) -> WithRecords[log_pb2.ProduceRequest]:
    head = log_pb2.ProduceRequest(correlation_id=number)
    head.partitions.extend(log_pb2.ProducePartition(topic="t", records_size=len(piece)) for piece in records)
    return WithRecords(head, records)


async def error_of(call: Awaitable[Any]) -> ReplogError:
    with pytest.raises(ReplogError) as raised:
        await call
    return raised.value
