"""ListOffsets 1–11: offsets by time, or at the ends. -3 (the greatest timestamp) from 7 on, -4 from 8, -5 from 9, -6
from 11. Nothing is kept in tiers: -4 is the start of the log, and nothing is at -5 and -6."""

import asyncio
from collections import Counter
from typing import Any

from leader.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from replog.common.acl import Operation
from replog.errors import ErrorCode, ReplogError
from replog.kafka import messages
from replog.server.broker.clients.offsets import MAX_TIMESTAMP, check_permitted, list_offset
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.fetch_requests import epoch_or_none, isolation_of
from replog.server.broker.kafka.partition_rows import rows_by_topic
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.replicas.look_ups import LOOK_UP_S
from replog.topic import TopicPartition

EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
_SINCE = {LATEST_TIMESTAMP: 0, EARLIEST_TIMESTAMP: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_SINCE[EARLIEST_PENDING_UPLOAD] = 11
FIRST_NOT_AVAILABLE = 5


async def serve(service: KafkaService, call: Call) -> messages.ListOffsetsResponse:
    message, version, permits = call.message, call.version, call.permits(Operation.DESCRIBE)
    isolation = isolation_of(message.isolation_level)
    deadline_s = asyncio.get_running_loop().time() + LOOK_UP_S  # `timeout_ms` is for what is kept in tiers
    named = Counter(
        TopicPartition(topic.name, each.partition_index) for topic in message.topics for each in topic.partitions
    )

    async def row(topic: str, asked: messages.ListOffsetsRequestPartition) -> Any:
        tp, timestamp, epoch = TopicPartition(topic, asked.partition_index), asked.timestamp, asked.current_leader_epoch
        try:
            if named[tp] > 1:
                raise ErrorCode.INVALID_REQUEST.error("a request names each partition once")
            check_permitted(permits, topic)
            if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
                raise ErrorCode.UNSUPPORTED_VERSION.error(f"timestamp {timestamp} in version {version}")
            if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
                return messages.ListOffsetsResponsePartition(tp.partition, 0, -1, -1, -1)
            if timestamp == EARLIEST_LOCAL:
                timestamp = EARLIEST_TIMESTAMP
            how = isolation, epoch_or_none(epoch), deadline_s
            at = await list_offset(service.manager, service.look_ups, tp, timestamp, *how)
            return messages.ListOffsetsResponsePartition(tp.partition, 0, at.timestamp, at.offset, at.leader_epoch)
        except ReplogError as error:
            code = error.code
            if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < FIRST_NOT_AVAILABLE:
                code = ErrorCode.LEADER_NOT_AVAILABLE  # these versions retry this one
            return messages.ListOffsetsResponsePartition(tp.partition, code, -1, -1, -1)

    return messages.ListOffsetsResponse(topics=await rows_by_topic(message.topics, row))
