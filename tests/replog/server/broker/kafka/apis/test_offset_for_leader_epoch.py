"""Ends of leader epochs that Kafka's clients ask for."""

from replog.errors import ErrorCode
from replog.kafka.messages import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from tests.replog.server.broker.conftest import batch
from tests.replog.server.broker.kafka.client import connected
from tests.replog.server.broker.kafka.requests import produce


async def test_a_leader_says_where_an_epoch_ends(cluster):
    broker = await cluster.begin(1)
    cases = {
        # partition, current epoch, epoch: error, partition, epoch, end
        (0, -1, 0): (0, 0, 0, 2),
        (0, 0, 0): (0, 0, 0, 2),
        (0, -1, 4): (0, 0, -1, -1),
        (0, 3, 0): (ErrorCode.UNKNOWN_LEADER_EPOCH, 0, -1, -1),
        (1, -1, 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1, -1, -1),
    }
    async with connected(broker.address) as client:
        await client.ask(produce(batch(b"x", b"y")), 9)
        for version in (2, 3, 4):
            partitions = [OffsetForLeaderEpochRequestPartition(*each) for each in cases]
            topics = [OffsetForLeaderEpochRequestTopic("t", partitions)]
            answer = await client.ask(OffsetForLeaderEpochRequest(-1, topics), version)
            assert [tuple(row) for row in answer.topics[0].partitions] == list(cases.values())
