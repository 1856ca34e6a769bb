"""Deletions of records by Kafka's clients."""

from replog.errors import ErrorCode
from replog.kafka.messages import DeleteRecordsRequest, DeleteRecordsRequestPartition, DeleteRecordsRequestTopic
from tests.replog.server.broker.conftest import TP, batch
from tests.replog.server.broker.kafka.client import connected
from tests.replog.server.broker.kafka.requests import produce


async def test_records_are_deleted_up_to_an_offset_or_to_the_high_watermark(cluster):
    await cluster.begin(2, 2)
    leader = cluster.leader(TP)
    async with connected(cluster.brokers[leader].address) as client:
        await client.ask(produce(batch(b"x", b"y", b"z")), 9)

        async def delete(version: int, partition: int, offset: int) -> tuple[int, int]:
            topics = [DeleteRecordsRequestTopic("t", [DeleteRecordsRequestPartition(partition, offset)])]
            answer = await client.ask(DeleteRecordsRequest(topics, 30_000), version)
            (row,) = answer.topics[0].partitions
            return row.error_code, row.low_watermark

        assert await delete(0, 0, 1) == (0, 1)
        assert await delete(1, 0, 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(2, 0, -1) == (0, 3)
        assert await delete(2, 2, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert [cluster.log(broker_id, TP).log_start_offset for broker_id in (1, 2)] == [3, 3]
