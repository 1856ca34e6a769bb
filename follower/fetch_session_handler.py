"""The follower's half of a fetch session: what it asks next, and what the answers mean (FT-6, divergence 11).

A request names the partitions whose fetch differs from the one that the leader knows. Only an event can change a fetch:
a partition is added or answered, a delay is over, a throttle lets it through, its log start moves. Such a partition is
*unsettled*, and a request looks at unsettled partitions only."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from follower.partition_follower import FollowerProgress, PartitionFollower
from replog.common.backoff import FetchSize
from replog.common.quota import ReplicationQuota, Throttles
from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import FetchPartition, SessionRequest, SessionRow, size_of
from replog.topic import TopicPartition

MAX_NAMED = 50  # partitions in one request; if there are more, it does not wait, and the next request names them


class FetchedReplica(Protocol):
    topic_partition: TopicPartition
    topic_id: bytes
    follower: PartitionFollower | None
    follower_quota: ReplicationQuota | None  # set while it is throttled (FT-6)
    fetched_by: "FetchSessionHandler | None"


OnProgress = Callable[[FetchedReplica, FollowerProgress], None]
OnDefect = Callable[[FetchedReplica, Exception], None]


class FetchSessionHandler:
    """All partitions that are copied from one leader, over one stream after another. Times are monotonic ms.

    The leader ends a stream on which the broker epoch changes; the next one has the new epoch from the start. One
    request is outstanding at a time, or two if something changes while the first one waits. Answers are matched by
    offset and epoch (FT-8), so their order does not matter."""

    def __init__(
        self,
        config: BrokerConfig,
        broker_epoch: Callable[[], int],
        throttles: Throttles,
        on_progress: OnProgress,
        on_defect: OnDefect,
    ) -> None:
        self._config = config
        self._broker_epoch = broker_epoch
        self._throttles = throttles
        self._on_progress = on_progress
        self._on_defect = on_defect
        self.partitions: dict[TopicPartition, FetchedReplica] = {}
        self.outstanding = 0
        self._unsettled: dict[TopicPartition, None] = {}
        self._named: dict[TopicPartition, FetchPartition] = {}  # the fetches that the leader knows
        self._forgotten: dict[TopicPartition, None] = {}  # the leader does not know yet
        self._pressing = False  # a partition was added, or flushed
        self._delayed: list[tuple[int, TopicPartition]] = []  # a heap of the times to try again
        self._throttled: dict[TopicPartition, None] = {}
        self._throttled_until_ms = 0
        self._exceeded = set[ReplicationQuota]()
        self._size = FetchSize(config.replica_fetch_response_max_bytes)
        self._asked_ms = 0

    # Copied partitions

    def add(self, replica: FetchedReplica) -> None:
        self.partitions[replica.topic_partition] = replica
        self._unsettled[replica.topic_partition] = None
        self._pressing = True
        replica.fetched_by = self

    def remove(self, tp: TopicPartition) -> bool:
        """Ignore from now on what arrives for `tp`. Return False if it was not copied."""
        replica = self.partitions.pop(tp, None)
        if replica is None:
            return False
        replica.fetched_by = None
        self._unsettled.pop(tp, None)
        self._throttled.pop(tp, None)
        self._forget(tp)
        return True

    def mark(self, tp: TopicPartition) -> None:
        """Look at `tp` with the next request: its fetch may have changed."""
        if tp in self.partitions:
            self._unsettled[tp] = None

    def flushed(self, tp: TopicPartition) -> None:
        """More records of `tp` are durable now. Tell the leader soon."""
        self.mark(tp)
        self._pressing = True

    def lost(self, now_ms: int, *, timed_out: bool = False) -> None:
        """The stream has failed, and with it every fetch (FT-11); the next leader knows nothing.

        `timed_out`: an answer took longer than it may."""
        if timed_out and self._named:
            self._size.timed_out(len(self._named) * self._config.replica_fetch_max_bytes)
        for tp, fetch in self._named.items():
            follower = self.partitions[tp].follower
            if follower is not None:
                follower.on_failure(fetch, now_ms)
        self.outstanding = 0
        self._named.clear()
        self._forgotten.clear()
        self._unsettled = dict.fromkeys(self.partitions)

    # Asking

    def next_request(self, now_ms: int) -> SessionRequest | None:
        """Return a request with the changes since the last one, or None while that waits or nothing has changed."""
        if self.outstanding > (1 if self._pressing else 0):
            return None
        while self._delayed and self._delayed[0][0] <= now_ms:
            self.mark(heapq.heappop(self._delayed)[1])
        self._look_at_quota(now_ms)
        named: dict[TopicPartition, FetchPartition] = {}
        for tp in tuple(islice(self._unsettled, MAX_NAMED)):
            del self._unsettled[tp]
            fetch = self._fetch(self.partitions[tp], now_ms)
            if fetch is None:
                self._forget(tp)
            elif self._named.get(tp) != fetch:
                named[tp] = self._named[tp] = fetch
        forgotten, self._forgotten = tuple(self._forgotten), {}
        self._pressing = False
        if not self._named and not forgotten:
            return None
        self.outstanding += 1
        self._asked_ms = now_ms
        return SessionRequest(
            replica_id=self._config.node_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=0 if self._unsettled else self._config.replica_fetch_wait_max_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._size.bytes,
            named=named,
            forgotten=forgotten,
        )

    @property
    def next_wake_ms(self) -> int | None:
        """The time when there may be more to ask without an event; None while a request waits for its answer."""
        if self.outstanding:
            return None
        if self._unsettled:
            return 0  # none of those that were looked at can be fetched; the others may
        times = [self._delayed[0][0]] if self._delayed else []
        times += [self._throttled_until_ms] if self._throttled else []
        return min(times, default=None)

    def _fetch(self, replica: FetchedReplica, now_ms: int) -> FetchPartition | None:
        """Return the fetch of this partition, if it has one now."""
        follower = replica.follower
        if follower is None:
            return None
        quota = self._quota(replica)
        if quota is not None and quota.is_exceeded(now_ms):
            if not self._throttled:
                self._throttled_until_ms = now_ms + self._config.replica_fetch_backoff_ms
            self._throttled[replica.topic_partition] = None
            return None
        try:
            fetch = follower.next_fetch(now_ms, self._config.replica_fetch_max_bytes, replica.topic_id)
        except Exception as error:  # noqa: BLE001
            self._failed(replica, follower, error)
            return None
        if fetch is None and follower.next_retry_ms is not None:
            heapq.heappush(self._delayed, (follower.next_retry_ms, replica.topic_partition))
        return fetch

    def _forget(self, tp: TopicPartition) -> None:
        if self._named.pop(tp, None) is not None:
            self._forgotten[tp] = None

    def _quota(self, replica: FetchedReplica) -> ReplicationQuota | None:
        """Return the quota that limits and counts this copy (FT-6); None while it is in sync.

        A replica without lag is in sync (FT-7). So is a member of the ISR, however far it is behind at the moment
        (divergence 55)."""
        follower = replica.follower
        if follower is None or follower.lag == 0 or self._config.node_id in follower.isr:
            return None
        return replica.follower_quota

    def _look_at_quota(self, now_ms: int) -> None:
        """Leave out the partitions of exceeded throttles. Try them again when these let them through, and from time to
        time, because they may not be throttled any more."""
        before, self._exceeded = self._exceeded, self._throttles.exceeded(now_ms)
        if exceeded := self._exceeded - before:
            self._unsettle(tp for tp, replica in self.partitions.items() if replica.follower_quota in exceeded)
        if self._throttled and (before - self._exceeded or now_ms >= self._throttled_until_ms):
            self._unsettle(self._throttled)
            self._throttled = {}

    def _unsettle(self, partitions: Iterable[TopicPartition]) -> None:
        self._unsettled.update(dict.fromkeys(partitions))

    # Answers

    def on_response(self, rows: Sequence[SessionRow], now_ms: int) -> None:
        """Take the answer to the oldest request: the partitions with something new (FE-17)."""
        if self._size.is_reduced:
            self._size.answered(size_of(rows), now_ms - self._asked_ms, self._config.replica_socket_timeout_ms)
        for row in rows:
            self._take_row(row, now_ms)
        self.outstanding -= 1

    def on_push(self, rows: Sequence[SessionRow]) -> None:
        """Take high watermarks that have moved (divergence 6). They answer no request."""
        for row in rows:
            replica = self.partitions.get(row.topic_partition)
            if replica is not None and replica.topic_id == row.request.topic_id:
                self._take_high_watermark(replica, row)

    def _take_row(self, row: SessionRow, now_ms: int) -> None:
        tp, asked, answer = row
        replica, fetch = self.partitions.get(tp), self._named.get(tp)
        if replica is not None and (quota := self._quota(replica)) is not None:
            quota.record(len(answer.records), now_ms)
        if replica is None or replica.follower is None or fetch is None or replica.topic_id != asked.topic_id:
            return
        self._unsettled[tp] = None
        if (asked.fetch_offset, asked.current_leader_epoch) != (fetch.fetch_offset, fetch.current_leader_epoch):
            # the leader does not send a high watermark twice, so this one counts, though the question is old (FT-8)
            if answer.error is ErrorCode.NONE and answer.diverging is None:
                self._take_high_watermark(replica, row)
            return
        try:
            self._on_progress(replica, replica.follower.on_answer(fetch, answer, now_ms))
        except Exception as error:  # noqa: BLE001
            self._failed(replica, replica.follower, error)

    def _take_high_watermark(self, replica: FetchedReplica, row: SessionRow) -> None:
        follower, epoch = replica.follower, row.request.current_leader_epoch
        if follower is not None and follower.on_high_watermark(epoch, row.answer.high_watermark):
            self._on_progress(replica, FollowerProgress(bounds_moved=True))

    def _failed(self, replica: FetchedReplica, follower: PartitionFollower, error: Exception) -> None:
        """An error of one partition leaves the others alone (FT-12). An error of the disk is reported by the log."""
        if not isinstance(error, ReplogError) or error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            follower.fail(repr(error))
            self._on_defect(replica, error)
