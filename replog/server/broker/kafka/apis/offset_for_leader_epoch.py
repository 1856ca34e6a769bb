"""OffsetForLeaderEpoch 2–4: where leader epochs end (FT-17)."""

from typing import Any

from replog.common.acl import Operation
from replog.errors import ReplogError
from replog.kafka import messages
from replog.server.broker.clients.offsets import check_permitted, leading
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.fetch_requests import epoch_or_none
from replog.server.broker.kafka.partition_rows import rows_by_topic
from replog.server.broker.kafka.service import KafkaService
from replog.topic import TopicPartition


async def serve(service: KafkaService, call: Call) -> messages.OffsetForLeaderEpochResponse:
    permits = call.permits(Operation.DESCRIBE)

    async def row(topic: str, asked: messages.OffsetForLeaderEpochRequestPartition) -> Any:
        epoch = epoch_or_none(asked.current_leader_epoch)
        try:
            check_permitted(permits, topic)
            leader = leading(service.manager, TopicPartition(topic, asked.partition), epoch)
            end = leader.end_offset_for_epoch(epoch, asked.leader_epoch)
            return messages.OffsetForLeaderEpochResponsePartition(0, asked.partition, *end)
        except ReplogError as error:
            return messages.OffsetForLeaderEpochResponsePartition(error.code, asked.partition, -1, -1)

    return messages.OffsetForLeaderEpochResponse(topics=await rows_by_topic(call.message.topics, row))
