"""What a broker copies of the batches that pass through it."""

import random

import pytest

from replog.errors import ErrorCode
from replog.log.formats.batch import HEADER_SIZE
from replog.log.offsets import Isolation
from replog.rpc.codec import RecordsDecoder
from replog.rpc.v1 import log_pb2
from tests.replog.server.broker.conftest import TP, batch

READ_AT_ONCE, IN_PIECES = 100_000, 900_000  # bytes


def records_of(size: int) -> bytes:
    return batch(random.Random(2).randbytes(size))


@pytest.mark.parametrize("size", [READ_AT_ONCE, IN_PIECES])
async def test_what_followers_read_of_a_new_batch_is_the_message_that_brought_it(cluster, size):
    await cluster.begin(1)
    records = records_of(size)
    assert (await cluster.produce(TP, records, acks=1))[0] is ErrorCode.NONE
    read = cluster.log(1, TP).read(0, 1 << 20, Isolation.LOG_END, min_one_message=True).records
    message = memoryview(read).obj
    request = RecordsDecoder(log_pb2.ProduceRequest)(message)
    assert request.head.acks == 1
    assert request.records[0][HEADER_SIZE:] == records[HEADER_SIZE:]
