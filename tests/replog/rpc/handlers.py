"""A server that shows each shape of a call, and what its clients ask, over the usual transport or another one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.peer import Peer, peer
from replog.rpc.transport import Channel, Denied, ServerStream, Transport, unrecorded
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import inspection_pb2, log_pb2

H2 = H2Transport()


class Handlers:
    """Everything a test wants of a server: what it was asked, and answers of each shape."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.ended: list[str] = []
        self.peers: list[Peer] = []  # who asked
        self.delay_s = 0.0
        self.error: Exception | None = None
        self.ready = True  # to handle what comes on a stream of fetches
        self.answer_bytes = 0  # of each answer there
        self.on_fetch: Callable[[], None] = lambda: None  # each of them
        self.stream: ServerStream  # of fetches

    async def get_metadata(self, request: log_pb2.GetMetadataRequest) -> log_pb2.GetMetadataResponse:
        self.asked.append(list(request.topics))
        self.peers.append(peer())
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
                self.peers.append(peer())
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

    async def fetch(self, stream: ServerStream) -> None:
        """Requests are handled, and answered, in the reader's own call."""
        self.stream = stream

        def handle(request: log_pb2.FetchRequest) -> None:
            self.asked.append(request.correlation_id)
            self.peers.append(peer())
            self.on_fetch()
            if self.error is not None:
                raise self.error
            stream.post(fetch_response(request.correlation_id, bytes(self.answer_bytes)))

        try:
            await stream.each(handle, lambda: self.ready)
            self.ended.append("finished")
        except BaseException as error:
            self.ended.append(repr(error))
            raise

    async def read_file(self, _: inspection_pb2.ReadFileRequest) -> AsyncIterator[Any]:
        self.peers.append(peer())
        try:
            for i in range(1000):
                self.asked.append(i)
                yield WithRecords(inspection_pb2.ReadFileResponse(position=i))
            if self.error is not None:
                raise self.error
        finally:
            self.ended.append("closed")

    def __getattr__(self, name: str) -> Any:
        async def not_here(_: Any) -> None:
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"no {name} here")

        return not_here


@contextlib.asynccontextmanager
async def listening(server: Any, handlers: object, *services: ServiceDescriptor, denied: Denied = unrecorded) -> Any:
    """Its address."""
    for service in services:
        server.add(service, handlers, denied)
    address = await server.start()
    await server.set_serving(True)
    try:
        yield address
    finally:
        await server.stop(0)


def serving(handlers: object, *services: ServiceDescriptor, transport: Transport = H2, **denied: Denied) -> Any:
    return listening(transport.listen("127.0.0.1:0"), handlers, *services, **denied)


@contextlib.asynccontextmanager
async def channel_to(address: str, transport: Transport = H2) -> AsyncIterator[Channel]:
    channel = transport.connect(address)
    try:
        yield channel
    finally:
        await channel.close()


async def ask(channel: Channel, *topics: str, timeout_s: float = 60.0) -> list[str]:
    answer = await channel.call(methods.Log["get_metadata"], log_pb2.GetMetadataRequest(topics=topics), timeout_s)
    return [topic.topic for topic in answer.topics]


def produce_request(number: int, *records: bytes) -> WithRecords[log_pb2.ProduceRequest]:
    head = log_pb2.ProduceRequest(correlation_id=number)
    head.partitions.extend(log_pb2.ProducePartition(topic="t", records_size=len(piece)) for piece in records)
    return WithRecords(head, records)


def fetch_response(number: int, records: bytes) -> WithRecords[log_pb2.FetchResponse]:
    return WithRecords(log_pb2.FetchResponse(correlation_id=number), [records])


async def until(true: Callable[[], object]) -> None:
    """Raises TimeoutError after a minute."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def error_of(call: Awaitable[Any]) -> ReplogError:
    with pytest.raises(ReplogError) as raised:
        await call
    return raised.value
