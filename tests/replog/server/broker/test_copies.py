"""What a broker copies of the batches that pass through it."""

import random
from collections.abc import AsyncIterator

import pytest

from replog.log.formats.batch import HEADER_SIZE
from replog.log.offsets import Isolation
from replog.rpc import methods
from replog.rpc.codec import RecordsDecoder
from replog.rpc.http2.partial import Partial
from replog.rpc.http2.transport import H2Transport
from replog.rpc.transport import Channel
from replog.rpc.v1 import log_pb2
from replog.server.broker.broker import Broker
from replog.server.broker.cleaning.cleaning_process import CleaningProcess
from replog.server.clock import SystemClock
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import CALL_S, batch, eventually, produce_request

TP = TopicPartition("t", 0)
READ_AT_ONCE, IN_PIECES = 100_000, 900_000  # bytes


@pytest.fixture
async def over_h2(cluster) -> AsyncIterator[Channel]:
    """To broker 1, which has the only replica of TP."""
    transport = H2Transport()
    broker = Broker(cluster.config(1), transport, SystemClock(), random.Random(1), CleaningProcess())
    await broker.start()
    cluster.brokers[1] = broker
    await eventually(lambda: not cluster.controller.state.image.brokers[1].fenced)
    await cluster.create_topic(TP.topic, 1, 1)
    channel = transport.connect(broker.address)
    yield channel
    await channel.close()


async def produce(channel: Channel, size: int) -> bytes:
    """What was sent."""
    records = batch(random.Random(2).randbytes(size))
    await channel.call(methods.Log["produce_once"], produce_request(TP, records, correlation_id=7), CALL_S)
    return records


@pytest.mark.parametrize("size", [READ_AT_ONCE, IN_PIECES])
async def test_what_followers_read_of_a_new_batch_is_the_message_that_brought_it(cluster, over_h2, size):
    records = await produce(over_h2, size)
    read = cluster.log(1, TP).read(0, 1 << 20, Isolation.LOG_END, min_one_message=True).records
    message = memoryview(read).obj
    request = RecordsDecoder(log_pb2.ProduceRequest)(message)
    assert request.head.correlation_id == 7
    assert request.records[0][HEADER_SIZE:] == records[HEADER_SIZE:]


async def test_most_of_a_large_message_is_read_from_the_socket_to_where_it_stays(over_h2, monkeypatch):
    sizes, landed = list[int](), Partial.landed

    def noted(self: Partial, size: int, behind: int) -> bytes:
        sizes.append(size)
        return landed(self, size, behind)

    monkeypatch.setattr(Partial, "landed", noted)
    await produce(over_h2, IN_PIECES)
    assert sum(sizes) > IN_PIECES / 2, sizes
