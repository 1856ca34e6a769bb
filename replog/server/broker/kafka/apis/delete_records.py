"""DeleteRecords 0–2: it answers once every live replica's log start has reached the offset, or at the timeout."""

from typing import Any

from replog.common.acl import Operation
from replog.errors import ReplogError
from replog.kafka import messages
from replog.server.broker.clients.offsets import delete_records
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.partition_rows import check_named, rows_by_topic
from replog.server.broker.kafka.service import KafkaService
from replog.topic import TopicPartition


async def serve(service: KafkaService, call: Call) -> messages.DeleteRecordsResponse:
    topics = call.message.topics
    check_named(topics)
    offsets = ((TopicPartition(topic, index), offset) for topic, partitions in topics for index, offset in partitions)
    deleted = await delete_records(service.manager, offsets, call.message.timeout_ms, call.permits(Operation.DELETE))

    async def row(topic: str, asked: messages.DeleteRecordsRequestPartition) -> Any:
        outcome = deleted[TopicPartition(topic, asked.partition_index)]
        error, low_watermark = (outcome.code, -1) if isinstance(outcome, ReplogError) else (0, outcome)
        return messages.DeleteRecordsResponsePartition(asked.partition_index, low_watermark, error)

    return messages.DeleteRecordsResponse(topics=await rows_by_topic(topics, row))
