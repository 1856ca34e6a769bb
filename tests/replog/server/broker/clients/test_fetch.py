"""A consumer's stream lets go of what it has sent."""

import asyncio
import sys

from replog.rpc.codec import WithRecords
from replog.rpc.v1 import log_pb2
from replog.server.broker.clients.log_service import LogService
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import batch, eventually, fetch_request


class OneRequest:
    """`replog.rpc.transport.ServerStream`: of a reader that asks once, and then for no more."""

    def __init__(self, request: log_pb2.FetchRequest) -> None:
        self._requests = [request]
        self.records: list[object] = []
        self.idle = asyncio.Event()

    async def receive(self) -> log_pb2.FetchRequest | None:
        if self._requests:
            return self._requests.pop()
        self.idle.set()
        await asyncio.Event().wait()
        return None

    async def send(self, message: WithRecords[log_pb2.FetchResponse]) -> None:
        self.records += message.records


async def test_a_stream_that_waits_for_the_next_request_does_not_keep_the_records_of_its_last_answer(cluster):
    await cluster.begin(1)
    await cluster.produce(TopicPartition("t", 0), batch(bytes(100_000)))
    await eventually(lambda: cluster.log(1, TopicPartition("t", 0)).high_watermark == 1)
    stream = OneRequest(fetch_request(TopicPartition("t", 0)))
    broker = cluster.brokers[1]
    serving = asyncio.create_task(LogService(broker.manager, broker._producer_ids).fetch(stream))
    await stream.idle.wait()
    (records,) = stream.records
    stream.records.clear()
    assert isinstance(records, bytes | bytearray)
    assert sys.getrefcount(records) == 2, "somebody besides this test has them"  # the name here, and the argument
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
