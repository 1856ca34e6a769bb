"""Offsets that Kafka's clients ask for, by time and at the ends."""

import pytest

from replog.errors import ErrorCode
from replog.kafka.messages import ListOffsetsRequest, ListOffsetsRequestPartition, ListOffsetsRequestTopic
from tests.replog.log.batches import client_batch
from tests.replog.server.broker.kafka.client import connected
from tests.replog.server.broker.kafka.requests import produce

NONE = (0, -1, -1)
UNSUPPORTED, FENCED = ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNKNOWN_LEADER_EPOCH
CASES = [
    # the timestamp, the version, the error, the timestamp and the offset of the answer
    (-1, 1, (0, -1, 4)),
    (-2, 1, (0, -1, 1)),
    (-3, 7, (0, 3000, 2)),  # the first record that has it
    (-3, 6, (UNSUPPORTED, -1, -1)),
    (-4, 8, (0, -1, 1)),
    (-4, 7, (UNSUPPORTED, -1, -1)),
    (-5, 9, NONE),
    (-6, 11, NONE),
    (-6, 10, (UNSUPPORTED, -1, -1)),
    (-7, 11, (UNSUPPORTED, -1, -1)),
    (0, 4, (0, 2000, 1)),  # record 0 is deleted
    (2001, 11, (0, 3000, 2)),
    (3001, 11, NONE),
]


@pytest.mark.parametrize("isolation", [0, 1])
async def test_each_timestamp_has_its_answer_in_the_versions_that_know_it(cluster, isolation):
    broker = await cluster.begin(1)
    async with connected(broker.address) as client:
        await client.ask(produce(client_batch(b"a", b"b", timestamps=(1000, 2000))), 9)
        await client.ask(produce(client_batch(b"c", b"d", timestamps=(3000, 3000))), 9)
        async with cluster.admin() as admin:
            await admin.delete_records({("t", 0): 1})

        async def ask(version: int, *asked: tuple[int, int, int], topic: str = "t") -> list[tuple[int, int, int]]:
            partitions = [ListOffsetsRequestPartition(*each) for each in asked]
            topics = [ListOffsetsRequestTopic(topic, partitions)]
            answer = await client.ask(ListOffsetsRequest(-1, isolation, topics, timeout_ms=0), version)
            return [(row.error_code, row.timestamp, row.offset) for row in answer.topics[0].partitions]

        for timestamp, version, expected in CASES:
            assert await ask(version, (0, -1, timestamp)) == [expected], (timestamp, version)
        assert await ask(9, (0, 5, -1), (1, -1, -1)) == [
            (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        ]
        assert await ask(9, (0, -1, -1), (0, -1, -2)) == [(ErrorCode.INVALID_REQUEST, -1, -1)] * 2
        await cluster.create_topic("empty", 1, 1)
        assert await ask(9, (0, -1, -3), topic="empty") == [NONE]
