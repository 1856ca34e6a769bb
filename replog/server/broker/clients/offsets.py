"""Questions about offsets, and deletions of records, as leaders answer them to every client."""

import asyncio
from collections.abc import Iterable

from leader.delayed_produce import DelayedDeleteRecords, DeleteRecordsResult
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Isolation, TimestampAndOffset
from replog.server.authorizer import Permits, refused_topic
from replog.server.broker.clients.produce import refusal
from replog.server.broker.replicas.look_ups import LookUps
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.work import in_slices
from replog.topic import TopicPartition

MAX_TIMESTAMP = -3  # stands for the greatest timestamp of all records


def check_permitted(permits: Permits, topic: str) -> None:
    """Raise TOPIC_AUTHORIZATION_FAILED unless the topic is allowed."""
    if not permits(topic):
        raise refused_topic(topic)


def leading(manager: ReplicaManager, tp: TopicPartition, epoch: int | None = None) -> PartitionLeader:
    """Return the leader here that believes in `epoch`, if one is given. Raises the reason why there is none."""
    leader = manager.replicas.leader_for_epoch(tp, epoch)
    if isinstance(leader, ErrorCode):
        raise refusal(leader, tp, manager.context.config.node_id)
    return leader


async def list_offset(
    manager: ReplicaManager,
    look_ups: LookUps,
    tp: TopicPartition,
    timestamp: int,
    isolation: Isolation,
    epoch: int | None,
    deadline_s: float,
) -> TimestampAndOffset:
    """Look up an offset by time, or at the ends (FE-22); until `deadline_s`, loop time."""
    leader, by_time = leading(manager, tp, epoch), None
    if timestamp == MAX_TIMESTAMP:
        timestamp = max(segment.max_timestamp for segment in leader.log.segments)
        if timestamp < 0:
            return TimestampAndOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)
    if timestamp >= 0:
        by_time = await look_ups.offset_for_timestamp(leader.log, timestamp, deadline_s)
        leader = leading(manager, tp, epoch)  # another broker may lead by now
    return leader.list_offset(
        timestamp, isolation, epoch, alone=manager.replicas.is_alone(leader), look_up=lambda *_: by_time
    )


async def delete_records(
    manager: ReplicaManager, offsets: Iterable[tuple[TopicPartition, int]], timeout_ms: int, permits: Permits
) -> dict[TopicPartition, int | ReplogError]:
    """Delete the records before each offset (LG-16). Return each partition's low watermark, once every live replica's
    log start has reached the offset, or why that was not so in time (FT-23)."""
    outcome: dict[TopicPartition, int | ReplogError] = {}
    targets: dict[TopicPartition, int] = {}
    async for tp, offset in in_slices(offsets):
        try:
            check_permitted(permits, tp.topic)
            outcome[tp] = targets[tp] = leading(manager, tp).delete_records(offset)
            manager.touched(tp, high_watermark_advanced=False)
        except ReplogError as error:
            outcome[tp] = error
    if targets:
        await _until_deleted(manager, targets, outcome, timeout_ms)
    return outcome


async def _until_deleted(
    manager: ReplicaManager,
    targets: dict[TopicPartition, int],
    outcome: dict[TopicPartition, int | ReplogError],
    timeout_ms: int,
) -> None:
    answered: asyncio.Future[dict[TopicPartition, DeleteRecordsResult]]
    answered = asyncio.get_running_loop().create_future()

    def respond(results: dict[TopicPartition, DeleteRecordsResult]) -> None:
        if not answered.done():
            answered.set_result(results)

    bounded_ms = max(0, min(timeout_ms, manager.context.config.request_timeout_ms))
    operation = DelayedDeleteRecords(targets, manager.replicas.leader, bounded_ms, respond)
    manager.record_deletions.complete_or_watch(operation, targets)
    for tp, (error, low_watermark) in (await answered).items():
        outcome[tp] = low_watermark
        if error is ErrorCode.REQUEST_TIMED_OUT:
            left = f"a live replica may still have records before offset {targets[tp]}"
            outcome[tp] = error.error(f"{tp}: {left} after {bounded_ms} ms; ask again")
        elif error is not ErrorCode.NONE:
            outcome[tp] = refusal(error, tp, manager.context.config.node_id)
