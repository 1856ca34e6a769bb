"""As many streams as one broker takes, and the largest batch: what docs/limits.md states, on real processes."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from replog.client import Admin, Consumer, Producer
from replog.config.properties import MAX_BATCH_BYTES
from replog.errors import ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.codec import WithRecords
from replog.rpc.grpcio.channel import GrpcChannel
from replog.rpc.limits import MAX_STREAMS
from replog.rpc.methods import Log, Method
from replog.rpc.transport import Stream
from replog.rpc.transports import client_tls
from replog.rpc.v1 import log_pb2
from tests.replog.client.conftest import read
from tests.replog.server.broker.conftest import batch

pytestmark = pytest.mark.processes

BROKER = 1
ANSWER_S = 120.0
AT_ONCE = 100  # of many streams that come at once gRPC refuses some by chance


async def led_by_the_broker(cluster: LocalCluster, topic: str) -> str:
    """A topic with a record; the broker's address."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, assignment=[(BROKER, 2, 3)])
    async with Producer(cluster.bootstrap) as producer:
        await (await producer.send(topic, b"first"))
    return cluster.state.broker(BROKER).address


@contextlib.asynccontextmanager
async def all_streams(address: str, method: Method, request: object) -> AsyncIterator[list[Any]]:
    """As many as the broker takes, one more refused; what each was answered."""
    most = method.limit.calls
    channels = [GrpcChannel(address, client_tls()) for _ in range(most // MAX_STREAMS + 1)]
    streams: list[Stream] = []
    answers: list[Any] = []
    try:
        for first in range(0, most, AT_ONCE):
            opened = [channels[number // MAX_STREAMS].open(method) for number in range(first, first + AT_ONCE)]
            streams += opened
            for stream in opened:
                await stream.send(request)
            answers += await asyncio.gather(*(stream.receive(ANSWER_S) for stream in opened))
        with pytest.raises(ReplogError, match="THROTTLING_QUOTA_EXCEEDED: "):
            await channels[-1].open(method).receive(ANSWER_S)
        yield answers
    finally:
        for stream in streams:
            stream.cancel()
        for channel in channels:
            await channel.close()


async def test_as_many_producers_as_there_may_be_are_all_acknowledged(cluster):
    address = await led_by_the_broker(cluster, "produced")
    records = batch(b"x" * 100)
    partition = log_pb2.ProducePartition(topic="produced", partition=0, records_size=len(records))
    head = log_pb2.ProduceRequest(acks=-1, timeout_ms=60_000, partitions=[partition])
    async with all_streams(address, Log["produce"], WithRecords(head, (records,))) as answers:
        results = [result for answer in answers for each in answer.answers for result in each.partitions]
        assert {result.error_code for result in results} == {0}
        assert sorted(result.base_offset for result in results) == list(range(1, Log["produce"].limit.calls + 1))


async def test_as_many_consumers_as_there_may_be_all_read(cluster):
    address = await led_by_the_broker(cluster, "consumed")
    partition = log_pb2.FetchPartition(topic="consumed", partition=0, partition_max_bytes=1000)
    request = log_pb2.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1000, partitions=[partition])
    async with all_streams(address, Log["fetch"], request) as answers:
        assert {sum(map(len, answer.records)) for answer in answers} == {len(batch(b"first"))}
        async with Producer(cluster.bootstrap) as producer:
            await (await producer.send("consumed", b"beside them"))


async def test_the_largest_batch_is_written_replicated_and_read(cluster):
    value = random.Random(1).randbytes(MAX_BATCH_BYTES - 100)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("large", configs={"max.message.bytes": str(MAX_BATCH_BYTES)})
    async with Producer(cluster.bootstrap, max_request_bytes=MAX_BATCH_BYTES) as producer:
        await (await producer.send("large", value))
        with pytest.raises(ReplogError, match="MESSAGE_TOO_LARGE: "):
            await (await producer.send("large", value + bytes(100)))
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("large", 0)])
        assert [record.value for record in await read(consumer, 1, ANSWER_S)] == [value]
