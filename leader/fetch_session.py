"""The leader's half of one follower's fetch session: what it fetches, what it was told, what is due (divergence 11).

A partition is *due* once it was named, or something happened to it here, until the follower has all that there is and
knows the bounds. A request, a wake-up and an answer look at what is due, and at nothing else: of every other partition
a request says that nothing has changed, which is one number for all of them (`Asker`).

Due partitions stand in a queue. Those that gave data go to its end (FE-10); with more than a response holds, the rest
keep their places, and are not read before their turn unless there is news of them.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from leader.delayed_fetch import AwaitedBytes, available_bytes
from leader.fetch_sizes import is_enough
from leader.follower_state import Asker
from leader.partition import PartitionLeader
from replog.errors import ErrorCode, ReplogError
from replog.fetch import FetchAnswer, FetchPartition, SessionRequest, SessionResponse, SessionRow
from replog.log.offsets import Isolation, OffsetMetadata
from replog.quota import ReplicationQuota
from replog.topic import TopicPartition

PUSH_DELAY_MS = 5  # high watermarks that move within this time go out in one message
MAX_SESSION_PARTITIONS = 100_000


class Host(Protocol):
    """The broker around a session."""

    def leader_for_fetch(self, tp: TopicPartition, fetch: FetchPartition) -> PartitionLeader | ErrorCode:
        """The leader, or the first thing that is wrong (FE-1)."""

    def leader_throttle(self, tp: TopicPartition) -> ReplicationQuota | None:
        """The quota under which this replica is copied from; None: it is not listed (FE-23)."""

    def watch(self, tp: TopicPartition, session: "FetchSession") -> None:
        """Call `session.mark(tp)` with whatever happens to `tp`, and `session.on_moved` soon after (PR-6)."""

    def unwatch(self, tp: TopicPartition, session: "FetchSession") -> None: ...

    def on_fetched(self, tp: TopicPartition, leader: PartitionLeader, *, moved: bool) -> None:
        """A follower was heard of (ST-10). `moved`: and with it the high or the low watermark, perhaps."""


@dataclass(slots=True)
class _Named:
    request: FetchPartition
    told: tuple[int, int] | None = None  # high watermark and log start last sent
    place: OffsetMetadata | None = None  # where the fetch offset lies, once it was read


@dataclass(slots=True, eq=False)
class _Parked:
    """The request that waits for an answer."""

    deadline_ms: int
    awaited: AwaitedBytes


class FetchSession:
    """One follower's stream, from its first request to its end. Times are monotonic milliseconds.

    `send` takes what is to be sent; `on_wake` is called when `next_wake_ms` may have come nearer.
    """

    def __init__(
        self,
        host: Host,
        send: Callable[[SessionResponse], None],
        on_wake: Callable[[], None],
        *,
        max_bytes: int,
        max_wait_ms: int,
    ) -> None:
        self._host = host
        self._send = send
        self._on_wake = on_wake
        self._max_bytes = max_bytes
        self._max_wait_ms = max_wait_ms
        self._named: dict[TopicPartition, _Named] = {}
        self._due: dict[TopicPartition, None] = {}
        self._fresh: dict[TopicPartition, None] = {}  # of these, what the next request has to count, in turn or not
        self._moved: dict[TopicPartition, None] = {}  # of these, what the parked request was not looked at for yet
        self._unpushed: dict[TopicPartition, None] = {}
        self._push_ms: int | None = None
        self._parked: _Parked | None = None
        self._asker: Asker | None = None  # since the first request
        self._limit = 0  # bytes of an answer, except that a first batch comes whole

    # Requests

    def on_request(self, request: SessionRequest, now_ms: int) -> None:
        """Take over what changed, count the follower's progress, answer now or when there is something to say.

        Raises INVALID_REQUEST if another follower speaks, or it names too many partitions.
        """
        asker = self._asker = self._asker or Asker(request.replica_id, request.broker_epoch)
        if (asker.replica_id, asker.broker_epoch) != (request.replica_id, request.broker_epoch):
            raise ReplogError(
                ErrorCode.INVALID_REQUEST,
                f"a fetch session of broker {asker.replica_id} in epoch {asker.broker_epoch} is continued by "
                f"{request.replica_id} in {request.broker_epoch}; open a stream of its own",
            )
        if self._parked is not None:  # one more request came before its answer, which says all that this one would
            self._respond([])
        for tp in request.forgotten:
            self._forget(tp)
        for tp, fetch in request.named.items():
            self._name(tp, fetch)
        self._limit = min(request.max_bytes, self._max_bytes)
        fresh, self._fresh, self._moved = self._fresh, {}, {}
        rows = self._read(fresh, now_ms, record_progress=True)
        asker.asked_ms = now_ms  # of all that was not read: it is level still
        min_bytes = max(1, min(request.min_bytes, self._limit))
        if request.max_wait_ms <= 0 or not self._named or is_enough((row.answer for row in rows), min_bytes):
            self._respond(rows, now_ms)
        else:
            self._park(rows, min_bytes, now_ms + min(request.max_wait_ms, self._max_wait_ms), now_ms)

    def _name(self, tp: TopicPartition, fetch: FetchPartition) -> None:
        known = self._named.get(tp)
        if known is None:
            if len(self._named) >= MAX_SESSION_PARTITIONS:
                raise ReplogError(
                    ErrorCode.INVALID_REQUEST, f"a fetch session holds at most {MAX_SESSION_PARTITIONS} partitions"
                )
            self._named[tp] = _Named(fetch)
            self._host.watch(tp, self)
        else:
            if known.request.current_leader_epoch != fetch.current_leader_epoch:
                known.told = None  # what it was told in another epoch it may not have taken
            known.request = fetch
        self._due[tp] = self._fresh[tp] = None

    def _forget(self, tp: TopicPartition) -> None:
        named = self._named.pop(tp, None)
        if named is None:
            return
        for some in (self._due, self._fresh, self._moved, self._unpushed):
            some.pop(tp, None)
        self._host.unwatch(tp, self)
        leader = self._host.leader_for_fetch(tp, named.request)
        if self._asker is not None and not isinstance(leader, ErrorCode):
            leader.stops_asking(self._asker)

    def close(self) -> None:
        """The stream is over. What it said of its partitions stays true."""
        for tp in self._named:
            self._host.unwatch(tp, self)
        self._named.clear()
        self._due.clear()
        self._parked = self._push_ms = None

    # Reading

    def _read(self, fresh: Collection[TopicPartition], now_ms: int, *, record_progress: bool) -> list[SessionRow]:
        """One pass over what is due, under the request's limits (FE-8, FE-9), `fresh` partitions whatever is left."""
        assert self._asker is not None
        left = limit = self._limit
        rows: list[SessionRow] = []
        for tp in tuple(self._due):
            named = self._named[tp]
            if tp not in fresh and left <= 0 < limit:
                continue
            leader = self._host.leader_for_fetch(tp, named.request)
            if isinstance(leader, ErrorCode):
                rows.append(SessionRow(tp, named.request, FetchAnswer(leader)))
                continue
            throttled = self._is_throttled(tp, leader, now_ms)
            if throttled and tp not in fresh:
                continue
            found = leader.fetch_as_follower(
                self._asker,
                named.request,
                max_bytes=0 if throttled else max(0, left),
                min_one=left == limit and not throttled,
                now_ms=now_ms,
                record_progress=record_progress,
            )
            named.place = found.metadata
            left -= len(found.answer.records)
            rows.append(SessionRow(tp, named.request, found.answer))
            if record_progress:
                self._host.on_fetched(tp, leader, moved=found.high_watermark_advanced or found.log_start_changed)
        return rows

    def _is_throttled(self, tp: TopicPartition, leader: PartitionLeader, now_ms: int) -> bool:
        """Whether this follower gets nothing of `tp` for now; one that is in sync always gets all (FE-23)."""
        quota = self._host.leader_throttle(tp)
        return quota is not None and not self._is_in_sync(leader) and quota.is_exceeded(now_ms)

    def _is_in_sync(self, leader: PartitionLeader) -> bool:
        return self._asker is not None and self._asker.replica_id in leader.isr

    # Answers

    def _respond(self, rows: Iterable[SessionRow], now_ms: int = 0) -> None:
        """Send what is new (FE-17); partitions that gave data go to the end of the queue (FE-10)."""
        self._parked = self._push_ms = None
        self._unpushed.clear()
        news: list[SessionRow] = []
        for row in rows:
            tp, _, answer = row
            named = self._named[tp]
            if answer.error is not ErrorCode.NONE or answer.diverging is not None:
                named.told = None  # the follower takes no high watermark from such an answer (FT-9)
                news.append(row)
                continue
            told = (answer.high_watermark, answer.log_start_offset)
            if answer.records or named.told != told:
                named.told = told
                news.append(row)
            if answer.records:
                self._due[tp] = self._due.pop(tp, None)
                quota = self._host.leader_throttle(tp)
                if quota is not None:  # what goes to followers in sync counts too (KIP-73)
                    quota.record(len(answer.records), now_ms)
            self._drop_if_done(row)
        self._send(SessionResponse(news))

    def _drop_if_done(self, row: SessionRow) -> None:
        """Not due any more: the follower has all, knows the bounds, is in sync, and nothing has happened since."""
        tp, request, answer = row
        if answer.log_end_offset > request.fetch_offset or tp in self._moved:
            return
        if self._named[tp].told != (answer.high_watermark, answer.log_start_offset):
            return
        leader = self._host.leader_for_fetch(tp, request)
        if not isinstance(leader, ErrorCode) and self._is_in_sync(leader):  # else it may join soon (ISR-1)
            self._due.pop(tp, None)

    # Waiting

    def _park(self, rows: Iterable[SessionRow], min_bytes: int, deadline_ms: int, now_ms: int) -> None:
        self._parked = _Parked(deadline_ms, AwaitedBytes(min_bytes))
        for row in rows:
            self._drop_if_done(row)
            if row.topic_partition in self._due and self._looks_complete(row.topic_partition, now_ms):
                self._answer_parked(now_ms)
                return
        self._push_soon((row.topic_partition for row in rows), now_ms)

    def _looks_complete(self, tp: TopicPartition, now_ms: int) -> bool:
        """Whether the parked request is to be answered, after another look at this partition (FE-12)."""
        assert self._parked is not None
        named = self._named[tp]
        leader = self._host.leader_for_fetch(tp, named.request)
        throttled = not isinstance(leader, ErrorCode) and self._is_throttled(tp, leader, now_ms)
        available = available_bytes(leader, named.request, named.place, Isolation.LOG_END, is_throttled=throttled)
        return self._parked.awaited.note(tp, available)

    def mark(self, tp: TopicPartition) -> None:
        """Something happened to `tp`: records, a high watermark, a log start, another role, a setting."""
        self._due[tp] = self._fresh[tp] = self._moved[tp] = None

    def on_moved(self, now_ms: int) -> None:
        """Look at what was marked: the parked request may be answered now, or high watermarks are to be pushed."""
        if self._parked is None:
            return  # the next request looks at all that is due
        moved, self._moved = self._moved, {}
        for tp in moved:
            if self._looks_complete(tp, now_ms):
                self._answer_parked(now_ms)
                return
        self._push_soon(moved, now_ms)

    @property
    def next_wake_ms(self) -> int | None:
        """When `on_time` is next needed."""
        if self._parked is None:
            return None
        return self._parked.deadline_ms if self._push_ms is None else min(self._push_ms, self._parked.deadline_ms)

    def on_time(self, now_ms: int) -> None:
        if self._parked is None:
            return
        if now_ms >= self._parked.deadline_ms:
            self._answer_parked(now_ms)
        elif self._push_ms is not None and now_ms >= self._push_ms:
            self._push()

    def _answer_parked(self, now_ms: int) -> None:
        """A fresh read of all that is due, which is no fetch of the follower (FE-13, ST-9)."""
        self._moved = {}
        self._respond(self._read(self._fresh, now_ms, record_progress=False), now_ms)

    # Pushes

    def _push_soon(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """While the follower waits with nothing to read, it is told of these high watermarks soon (divergence 6)."""
        self._unpushed.update((tp, None) for tp in partitions if tp in self._due)
        if self._unpushed and self._push_ms is None:
            self._push_ms = now_ms + PUSH_DELAY_MS
        self._on_wake()

    def _push(self) -> None:
        self._push_ms = None
        unpushed, self._unpushed = self._unpushed, {}
        rows = []
        for tp in unpushed:
            named = self._named[tp]
            leader = self._host.leader_for_fetch(tp, named.request)
            if isinstance(leader, ErrorCode) or named.told is None:
                continue
            log = leader.log
            if named.told[0] != log.high_watermark:
                named.told = (log.high_watermark, named.told[1])
                answer = FetchAnswer(
                    high_watermark=log.high_watermark,
                    log_start_offset=log.log_start_offset,
                    log_end_offset=log.log_end_offset,
                )
                rows.append(SessionRow(tp, named.request, answer))
                self._drop_if_done(rows[-1])
                if tp not in self._due:
                    self._fresh.pop(tp, None)
        if rows:
            self._send(SessionResponse(rows, pushed=True))
