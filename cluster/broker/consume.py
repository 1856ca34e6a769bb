"""A consumer's fetch: read every partition under the limits, then answer or wait for enough to read (§4)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from cluster.broker.replica_manager import ReplicaManager
from follower.partition import PartitionFollower
from leader.delayed_fetch import DelayedFetch, FetchRow
from leader.fetch_sizes import FetchRound, read_partitions
from replog.errors import ErrorCode
from replog.fetch import FetchAnswer, FetchPartition, PartitionRead
from replog.log.offsets import Isolation
from replog.topic import TopicPartition

ROOM_WAIT_S = 1.0  # how long a fetch waits for room for its answer


@dataclass(frozen=True, slots=True)
class ConsumerFetch:
    """One fetch request; sizes in bytes, times in milliseconds."""

    partitions: Sequence[tuple[TopicPartition, FetchPartition]]
    isolation: Isolation
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    rack: str | None  # the consumer's; None: it is not prepared to read from followers


class PendingFetch:
    """A fetch from its first read to its answer; between the two it may wait, and holds no bytes while it does."""

    def __init__(self, manager: ReplicaManager, request: ConsumerFetch) -> None:
        self._manager = manager
        self._request = request
        self._leader_only = request.rack is None
        self._client_rack = request.rack if request.rack and manager.config.replica_selector_class else ""
        self.limit = min(request.max_bytes, manager.config.fetch_max_bytes)

    def read(self, max_bytes: int | None = None) -> FetchRound:
        """Read all partitions once (FE-8, FE-9), at most `max_bytes`; 0: nothing but their offsets."""
        nothing = max_bytes == 0

        def read(tp: TopicPartition, partition: FetchPartition, max_bytes: int, min_one: bool) -> PartitionRead:
            return self._read(tp, partition, max_bytes, min_one and not nothing)

        limit = self.limit if max_bytes is None else min(max_bytes, self.limit)
        return read_partitions(self._request.partitions, read, limit)

    def _read(self, tp: TopicPartition, partition: FetchPartition, max_bytes: int, min_one: bool) -> PartitionRead:
        manager, request = self._manager, self._request
        leader_only = self._leader_only
        found = manager.leader_for_fetch(tp, partition) if leader_only else manager.reader_for_fetch(tp, partition)
        if isinstance(found, ErrorCode):
            return PartitionRead(FetchAnswer(found))
        if isinstance(found, PartitionFollower):
            return found.fetch_as_consumer(partition, request.isolation, max_bytes=max_bytes, min_one=min_one)
        return found.fetch_as_consumer(
            partition,
            request.isolation,
            max_bytes=max_bytes,
            min_one=min_one,
            client_rack=self._client_rack,
            alone=manager.is_alone(found),
        )

    def is_answered_by(self, found: FetchRound) -> bool:
        return found.answers_at_once(max_wait_ms=self._request.max_wait_ms, min_bytes=self._min_bytes)

    @property
    def _min_bytes(self) -> int:
        return min(self._request.min_bytes, self.limit)

    def park(self, found: FetchRound, respond: Callable[[], None]) -> None:
        """Wait for more than was found; then, or when it has waited long enough, `respond` once (FE-12)."""
        operation = DelayedFetch(
            [FetchRow(tp, partition, found.reads[tp].metadata) for tp, partition in self._request.partitions],
            isolation=self._request.isolation,
            min_bytes=self._min_bytes,
            lookup=self._manager.leader if self._leader_only else self._manager.reader,
            timeout_ms=min(self._request.max_wait_ms, self._manager.config.request_timeout_ms),
            respond=respond,
        )
        self._manager.fetches.complete_or_watch(operation, [tp for tp, _ in self._request.partitions])

    def answers(self, found: FetchRound) -> list[FetchAnswer]:
        """In the order of the request."""
        return [found.reads[tp].answer for tp, _ in self._request.partitions]


@contextlib.asynccontextmanager
async def answered(
    manager: ReplicaManager, request: ConsumerFetch, turn: contextlib.AbstractAsyncContextManager[object]
) -> AsyncIterator[list[FetchAnswer]]:
    """One answer per partition, once there is something to say (FE-8 to FE-13); the block hands them to the reader.

    From the read to the end of the block they have room in the broker's budget, and `turn`: of the answers to one
    stream each is read when the one before has been taken. Without room in time they come without records.
    """
    pending = PendingFetch(manager, request)
    more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with turn, manager.answers.share(pending.limit, ROOM_WAIT_S) as share:
        found = pending.read(share.size)
        if not share.size or pending.is_answered_by(found):
            share.resize(found.total_bytes)
            yield pending.answers(found)
            return
        pending.park(found, lambda: None if more.done() else more.set_result(None))
        del found
    await more
    async with turn, manager.answers.share(pending.limit, ROOM_WAIT_S) as share:
        found = pending.read(share.size)
        share.resize(found.total_bytes)
        yield pending.answers(found)
