"""A consumer's fetch: read every partition under the limits, then answer or wait for enough to read (§4)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cluster.broker.replica_manager import ReplicaManager
from follower.partition import PartitionFollower
from leader.delayed_fetch import DelayedFetch, FetchRow
from leader.fetch_sizes import FetchRound, read_partitions
from replog.errors import ErrorCode
from replog.fetch import FetchAnswer, FetchPartition, PartitionRead
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
    rack: str | None  # the consumer's; None: it is not prepared to read from followers
    topic_ids: Mapping[TopicPartition, bytes] = field(default_factory=dict)  # where the consumer knows them (FE-1)


def fetch(manager: ReplicaManager, request: ConsumerFetch, respond: Callable[[list[FetchAnswer]], None]) -> None:
    """Call `respond` once, with one answer per partition in their order (FE-8..FE-13)."""
    limit = min(request.max_bytes, manager.config.fetch_max_bytes)
    leader_only = request.rack is None
    client_rack = request.rack if request.rack and manager.config.replica_selector_class else ""

    def read(tp: TopicPartition, partition: FetchPartition, max_bytes: int, min_one: bool) -> PartitionRead:
        hosted, topic_id = manager.hosted.get(tp), request.topic_ids.get(tp)
        if hosted is not None and topic_id is not None and topic_id != hosted.topic_id:
            return PartitionRead(FetchAnswer(ErrorCode.INCONSISTENT_TOPIC_ID))
        found = manager.leader_for_epoch(tp, partition.current_leader_epoch) if leader_only else manager.reader(tp)
        if isinstance(found, ErrorCode):
            return PartitionRead(FetchAnswer(found))
        if isinstance(found, PartitionFollower):
            return found.fetch_as_consumer(partition, request.isolation, max_bytes=max_bytes, min_one=min_one)
        return found.fetch_as_consumer(
            partition, request.isolation, max_bytes=max_bytes, min_one=min_one, client_rack=client_rack
        )

    def answer(found: FetchRound) -> None:
        respond([found.reads[tp].answer for tp, _ in request.partitions])

    first = read_partitions(request.partitions, read, limit)
    min_bytes = min(request.min_bytes, limit)
    if first.answers_at_once(max_wait_ms=request.max_wait_ms, min_bytes=min_bytes):
        answer(first)
        return
    operation = DelayedFetch(
        [FetchRow(tp, partition, first.reads[tp].metadata) for tp, partition in request.partitions],
        isolation=request.isolation,
        min_bytes=min_bytes,
        lookup=manager.leader if leader_only else manager.reader,
        timeout_ms=min(request.max_wait_ms, manager.config.request_timeout_ms),
        respond=lambda: answer(read_partitions(request.partitions, read, limit)),
    )
    manager.fetches.complete_or_watch(operation, [tp for tp, _ in request.partitions])
