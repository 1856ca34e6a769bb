"""Producing: append to every partition, then answer or wait for the in-sync replicas (§3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cluster.broker.replica_manager import ReplicaManager
from leader.delayed_produce import DelayedProduce, PendingProduce
from replog.errors import ErrorCode, ReplogError
from replog.log.batch import producer_of
from replog.log.offsets import Buffer
from replog.topic import TopicPartition

VALID_ACKS = (-1, 0, 1)


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """One partition's answer; offsets are -1 on error."""

    error: ErrorCode
    message: str = ""
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1


def produce(
    manager: ReplicaManager,
    entries: Sequence[tuple[TopicPartition, Buffer]],
    *,
    acks: int,
    timeout_ms: int,
    respond: Callable[[list[ProduceResult]], None],
) -> None:
    """Append each batch and call `respond` once, with one result per entry in their order (PR-1..PR-11)."""
    if acks not in VALID_ACKS:
        message = f"acks={acks}; it must be 0, 1 or -1 (all)"
        respond([ProduceResult(ErrorCode.INVALID_REQUIRED_ACKS, message) for _ in entries])
        return
    results: list[ProduceResult] = []
    pending: dict[int, PendingProduce] = {}
    for index, (tp, records) in enumerate(entries):
        result, waits = _append(manager, tp, records, acks)
        results.append(result)
        if waits is not None:
            pending[index] = waits
    if acks != -1 or not pending:  # PR-8
        respond(results)
        return

    names = [tp for tp, _ in entries]  # the records are not kept while the request waits

    def settle(errors: dict[int, ErrorCode]) -> None:
        for index, error in errors.items():
            if error is not ErrorCode.NONE:
                message = f"appended to {names[index]}, but not known to be committed: it may be there (PR-12)"
                results[index] = replace(results[index], error=error, message=message, base_offset=-1)
        respond(results)

    operation = DelayedProduce(pending, manager.leader, timeout_ms, settle)
    manager.produces.complete_or_watch(operation, [waits.topic_partition for waits in pending.values()])


def _append(
    manager: ReplicaManager, tp: TopicPartition, records: Buffer, acks: int
) -> tuple[ProduceResult, PendingProduce | None]:
    leader = manager.leader(tp)
    if isinstance(leader, ErrorCode):
        return ProduceResult(leader, f"broker {manager.config.node_id} does not lead {tp}; refresh metadata"), None
    now_ms, producer = manager.clock.monotonic_ms(), producer_of(records)
    if producer >= manager.image.next_producer_id and manager.hearing.is_up_to_date(now_ms):
        message = f"nobody was given producer id {producer}; get one with InitProducerId, or retry if it is that new"
        return ProduceResult(ErrorCode.UNKNOWN_PRODUCER_ID, message), None
    try:
        appended = leader.append(records, acks=acks, wall_ms=manager.clock.wall_ms(), now_ms=now_ms)
    except ReplogError as error:
        return ProduceResult(error.code, error.message), None
    manager.touched(tp, appended.high_watermark_advanced)
    info = appended.info
    result = ProduceResult(
        ErrorCode.NONE,
        base_offset=info.first_offset,
        log_append_time=info.log_append_time,
        log_start_offset=info.log_start_offset,
    )
    return result, PendingProduce(tp, appended.required_offset, appended.leader_epoch)
