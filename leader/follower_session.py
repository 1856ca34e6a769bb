"""A follower's fetch session: it reads up to the log end, and its fetch offsets say what it has (ST-7).

Each request says that the follower is still level in all partitions that are not due (`FetchContext` holds that as one
number). While it waits with nothing to read, new high watermarks are pushed to it (divergence 6)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from leader.fetch_session import CachedPartition, FetchSession, Host
from leader.follower_state import FetchContext
from leader.partition_leader import PartitionLeader
from replog.common.quota import ReplicationQuota
from replog.errors import ErrorCode
from replog.log.fetch import FetchAnswer, FetchPartition, Reading, SessionRequest, SessionRow, Shared, answer_of
from replog.topic import TopicPartition

MAX_FOLLOWER_LOOKS = 50  # each look takes 10 to 80 us, and may be an append on the follower
PUSH_EVERY_MS = 20  # high watermarks that move within this time go out in one message


class FollowerHost(Host, Protocol):
    """The broker around a follower's session."""

    shared: Shared | None  # set while several sessions hear of the same events


class Leaders(Protocol):
    """The leaders of this broker."""

    def leader_for_fetch(self, tp: TopicPartition, fetch: FetchPartition) -> PartitionLeader | ErrorCode:
        """The leader, or the first error (FE-1)."""

    def leader_throttle(self, tp: TopicPartition, follower: int) -> ReplicationQuota | None:
        """Return the quota for copies from this replica to that broker's; None: they are not throttled (FE-23)."""


class OnFetched(Protocol):
    def __call__(self, tp: TopicPartition, leader: PartitionLeader, *, moved: bool) -> None:
        """A follower has fetched (ST-10). `moved`: the high or the low watermark may have moved."""


class FollowerSession(FetchSession[PartitionLeader]):
    """`send` takes each answer, and `push` high watermarks that have moved, which answer nothing. `wake_by` is called
    with `next_wake_ms` when that may be earlier than before."""

    most_looks = MAX_FOLLOWER_LOOKS
    least_bytes = 1  # a request for none waits for one (FE-8, FE-11)

    def __init__(
        self,
        host: FollowerHost,
        leaders: Leaders,
        on_fetched: OnFetched,
        send: Callable[[Sequence[SessionRow]], None],
        push: Callable[[Sequence[SessionRow]], None],
        wake_by: Callable[[int | None], None],
        *,
        max_bytes: int,
        max_wait_ms: int,
    ) -> None:
        super().__init__(host, leaders.leader_for_fetch, max_bytes=max_bytes, max_wait_ms=max_wait_ms)
        self._host = host
        self._leaders = leaders
        self._on_fetched = on_fetched
        self._send = send
        self._send_pushed = push
        self._wake_by = wake_by
        self._context: FetchContext | None = None  # set by the first request
        self._unpushed: dict[TopicPartition, None] = {}
        self._push_ms: int | None = None

    def on_request(self, request: SessionRequest, now_ms: int) -> None:
        """Take over the changes and count the follower's progress. Answer now, or when there is something to answer.

        Raises INVALID_REQUEST if the request comes from another follower, or names too many partitions."""
        context = self._context = self._context or FetchContext(request.replica_id, request.broker_epoch)
        if (context.replica_id, context.broker_epoch) != (request.replica_id, request.broker_epoch):
            raise ErrorCode.INVALID_REQUEST.error(
                f"a fetch session of broker {context.replica_id} in epoch {context.broker_epoch} is "
                f"continued by {request.replica_id} in {request.broker_epoch}; open a stream of its own"
            )
        if self.pending is not None:  # its request gets an empty answer, and the new one replaces it
            self._send(self._response([], now_ms))
        self._change(request)
        response = self.ask(request, now_ms, self._max_bytes)
        context.asked_ms = now_ms  # the follower is still level in all partitions that were not read
        if response is not None:
            self._send(response)

    def forget(self, tp: TopicPartition) -> CachedPartition | None:
        named = super().forget(tp)
        if named is None:
            return None
        self._unpushed.pop(tp, None)
        leader = self._leaders.leader_for_fetch(tp, named.request)
        if self._context is not None and not isinstance(leader, ErrorCode):
            leader.stops_asking(self._context)
        return named

    def close(self) -> None:
        super().close()
        self._push_ms = None

    # Reads

    def _fetch(
        self,
        tp: TopicPartition,
        fetch: FetchPartition,
        reader: PartitionLeader,
        how: Reading,
        now_ms: int,
        *,
        counts: bool,
    ) -> FetchAnswer:
        assert self._context is not None
        answer = reader.fetch_as_follower(self._context, fetch, how, self._host.shared)
        if counts:
            moved = reader.on_fetched(self._context, fetch, answer, now_ms)
            self._on_fetched(tp, reader, moved=moved)
        return answer

    def _has_all(self, reader: PartitionLeader, fetch: FetchPartition, answer: FetchAnswer) -> bool:
        """The follower must be in sync, too: otherwise it may join soon (ISR-1)."""
        return answer.log_end_offset <= fetch.fetch_offset and self._is_in_sync(reader)

    def _is_in_sync(self, leader: PartitionLeader) -> bool:
        return self._context is not None and self._context.replica_id in leader.state.isr

    def _is_caught_up(self, reader: PartitionLeader) -> bool:
        return self._context is not None and reader.is_caught_up(self._context)

    def _quota(self, tp: TopicPartition, leader: PartitionLeader) -> ReplicationQuota | None:
        """The quota that counts, if any. A follower in sync is not throttled (FE-23), nor counted (divergence 55)."""
        assert self._context is not None
        return None if self._is_in_sync(leader) else self._leaders.leader_throttle(tp, self._context.replica_id)

    def _is_throttled(self, tp: TopicPartition, leader: PartitionLeader, now_ms: int) -> bool:
        quota = self._quota(tp, leader)
        return quota is not None and quota.is_exceeded(now_ms)

    def _sent(self, tp: TopicPartition, size: int, now_ms: int) -> None:
        leader = self.reader(tp, self.named[tp].request)
        if not isinstance(leader, ErrorCode) and (quota := self._quota(tp, leader)) is not None:
            quota.record(size, now_ms)

    # Answers

    def _ready(self, now_ms: int) -> None:
        response = self.answer(now_ms, self._max_bytes)
        if response is not None:
            self._send(response)
        else:
            self._goes_on_waiting((), now_ms)

    def _response(self, rows: Iterable[SessionRow], now_ms: int) -> list[SessionRow]:
        self._push_ms = None
        self._unpushed.clear()
        return super()._response(rows, now_ms)

    @property
    def next_wake_ms(self) -> int | None:
        """The time when `on_time` is next needed."""
        if self.pending is None:
            return None
        deadline_ms = self.pending.deadline_ms
        return deadline_ms if self._push_ms is None else min(self._push_ms, deadline_ms)

    def on_time(self, now_ms: int) -> None:
        if self.deadline_ms is None:
            return
        if now_ms >= self.deadline_ms:
            self._ready(now_ms)
        elif self._push_ms is not None and now_ms >= self._push_ms:
            self._push(now_ms)

    # Pushes

    def _goes_on_waiting(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Send these high watermarks if the follower has nothing to read for a while (divergence 6). All sessions do so
        at common moments, so that one timer serves them all."""
        for tp in partitions:
            if tp in self.due:
                self._unpushed[tp] = None
        if self._unpushed and self._push_ms is None:
            self._push_ms = (now_ms // PUSH_EVERY_MS + 2) * PUSH_EVERY_MS
        self._wake_by(self.next_wake_ms)

    def _push(self, now_ms: int) -> None:
        rows = []
        for tp in tuple(islice(self._unpushed, self.most_looks)):
            del self._unpushed[tp]
            named = self.named[tp]
            leader = self._leaders.leader_for_fetch(tp, named.request)
            if isinstance(leader, ErrorCode) or named.sent_bounds is None:
                continue
            log = leader.log
            if named.sent_bounds[0] != log.high_watermark:
                named.sent_bounds = (log.high_watermark, named.sent_bounds[1])
                rows.append(SessionRow(tp, named.request, answer_of(log)))
                self._drop_if_done(rows[-1])
        self._push_ms = now_ms if self._unpushed else None
        if rows:
            self._send_pushed(rows)
