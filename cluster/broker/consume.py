"""A consumer's fetch: read every partition under the limits, then answer or wait for enough to read (§4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.broker.replica_manager import ReplicaManager
from leader.delayed_fetch import DelayedFetch, ParkedPartition
from leader.fetch_sizes import read_in_order
from leader.partition import FetchRead
from replog.errors import ErrorCode
from replog.fetch import FetchAnswer, FetchPartition
from replog.log.offsets import Isolation
from replog.topic import TopicPartition


@dataclass(frozen=True, slots=True)
class ConsumerFetch:
    """One fetch request; sizes in bytes, times in milliseconds."""

    partitions: Sequence[tuple[TopicPartition, FetchPartition]]
    isolation: Isolation
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


def fetch(manager: ReplicaManager, request: ConsumerFetch, respond: Callable[[list[FetchAnswer]], None]) -> None:
    """Call `respond` once, with one answer per partition in their order (FE-8..FE-13)."""
    limit = min(request.max_bytes, manager.config.fetch_max_bytes)

    def read_all() -> list[FetchRead]:
        def read(index: int, max_bytes: int, min_one: bool) -> FetchRead:
            tp, partition = request.partitions[index]
            leader = manager.leader_for_epoch(tp, partition.current_leader_epoch)
            if isinstance(leader, ErrorCode):
                return FetchRead(FetchAnswer(leader), None, False)
            return leader.fetch_as_consumer(partition, request.isolation, max_bytes=max_bytes, min_one=min_one)

        wanted = {index: partition.max_bytes for index, (_, partition) in enumerate(request.partitions)}
        return list(read_in_order(wanted, limit, read).values())

    reads = read_all()
    answers = [found.answer for found in reads]
    size = sum(len(answer.records) for answer in answers)
    failed = any(answer.error is not ErrorCode.NONE or answer.diverging is not None for answer in answers)
    min_bytes = min(request.min_bytes, limit)
    if request.max_wait_ms <= 0 or not answers or size >= min_bytes or failed:  # FE-11
        respond(answers)
        return
    rows = {
        tp: ParkedPartition(partition, found.metadata)
        for (tp, partition), found in zip(request.partitions, reads, strict=True)
        if found.metadata is not None
    }
    operation = DelayedFetch(
        rows,
        isolation=request.isolation,
        min_bytes=min_bytes,
        lookup=manager.leader,
        timeout_ms=min(request.max_wait_ms, manager.config.request_timeout_ms),
        respond=lambda: respond([found.answer for found in read_all()]),
    )
    manager.fetches.complete_or_watch(operation, rows)
