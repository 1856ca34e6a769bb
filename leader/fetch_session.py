"""The broker's half of a fetch session: what its reader fetches, what was sent, what is due (divergence 11).

A partition is *due* from the moment it is named or changes until the reader has all its data and knows its bounds. A
request, a wake-up and an answer look at due partitions only. For all others, a request means that nothing has changed.

Due partitions stand in a queue. Those that gave data go to its end (FE-10). If there are more than a response holds,
the rest keep their places, and are not read before their turn unless they change.

An answer reads at most `most_looks` partitions, first those that the request has named; a check of a waiting request
looks at as many. The rest follows soon. A request that does not wait is answered once something was found or everything
was looked at: an answer without records says that nothing is there."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

from leader.delayed_fetch import AwaitedBytes, Reader, available_bytes, is_enough
from replog.errors import ErrorCode
from replog.log.fetch import FetchAnswer, FetchPartition, Reading, SessionRequest, SessionRow, answer_of
from replog.log.files.cold import NOTHING, ByteRange, ColdRead
from replog.log.offsets import Isolation, OffsetMetadata
from replog.topic import TopicPartition

MAX_SESSION_PARTITIONS = 30_000  # the end of a session drops them all in one step; a cluster has at most 20,000
MAX_LOOKS = 500  # partitions at a time, at 3 to 30 us each

R = TypeVar("R", bound=Reader)


class Host(Protocol):
    """The broker around a session."""

    def watch(self, tp: TopicPartition, session: "FetchSession[R]") -> None:
        """Call `session.mark(tp)` for every event of `tp`, and `session.on_moved` soon after (PR-6)."""

    def unwatch(self, tp: TopicPartition, session: "FetchSession[R]") -> None:
        """Stop calling the session for `tp`, and drop what a thread still reads for it."""

    def bring(self, tp: TopicPartition, session: "FetchSession[R]", cold: ColdRead) -> None:
        """Have a thread bring into memory the bytes that a read of `tp` needs, then call `session.on_brought` and
        `session.on_moved`."""

    def go_on(self, session: "FetchSession[R]") -> None:
        """Call `session.on_moved` soon, after all other work that is ready."""


@dataclass(slots=True)
class CachedPartition:
    """A partition of a session."""

    request: FetchPartition
    sent_bounds: tuple[int, int] | None = None  # high watermark and log start last sent
    place: OffsetMetadata | None = None  # the place of the fetch offset, once it was read
    has_all: bool = False  # the reader had all at the last look, and nothing has happened since
    fresh: bool = True  # named or marked since the last look: it is read even if no room is left
    missing: ColdRead | None = None  # a thread reads this from the disk now
    brought: ByteRange = NOTHING  # read from the disk, and not sent since


@dataclass(slots=True, eq=False)
class PendingFetch:
    """The request that waits for an answer."""

    deadline_ms: int
    awaited: AwaitedBytes
    looks_only: bool  # answer as soon as everything due was looked at


class FetchSession(ABC, Generic[R]):
    """One reader's stream, from its first request to its end, served by roles R. Times are monotonic milliseconds.

    `FollowerSession` says what a follower may read, `ConsumerSession` what a consumer may.
    """

    isolation = Isolation.LOG_END
    least_bytes = 0  # an answer waits for so many, even if the request names fewer
    most_looks = MAX_LOOKS
    is_bounded = False  # the broker limits the partitions of all such sessions together

    def __init__(
        self,
        host: Host,
        reader: Callable[[TopicPartition, FetchPartition], R | ErrorCode],
        *,
        max_bytes: int,
        max_wait_ms: int,
        cold_wait_ms: int = 0,
    ) -> None:
        """`reader` returns the role that serves a fetch, or the first error (FE-1). While bytes are brought from the
        disk, a request waits at least `cold_wait_ms`, even if it asks for less."""
        self.reader = reader
        self._watching = host
        self._max_bytes = max_bytes
        self._max_wait_ms = max_wait_ms
        self._cold_wait_ms = cold_wait_ms
        self.named: dict[TopicPartition, CachedPartition] = {}
        self.due: dict[TopicPartition, None] = {}
        self._first: dict[TopicPartition, None] = {}  # the part of `due` that is read first
        self._unseen: dict[TopicPartition, bool] = {}  # the part that the request has yet to see; if that look `counts`
        self.pending: PendingFetch | None = None
        self._disk_until_ms = 0  # a request waits so long for bytes that are brought from the disk
        self._limit = 0  # bytes of an answer, except that a first batch is never cut

    @abstractmethod
    def _fetch(
        self, tp: TopicPartition, fetch: FetchPartition, reader: R, how: Reading, now_ms: int, *, counts: bool
    ) -> FetchAnswer:
        """Read one partition. `counts`: the first read for a request, not one after it has waited (ST-9)."""

    @abstractmethod
    def _has_all(self, reader: R, fetch: FetchPartition, answer: FetchAnswer) -> bool:
        """Return True if only an event of the partition can make it due."""

    @abstractmethod
    def _ready(self, now_ms: int) -> None:
        """The parked request can be answered: call `answer`."""

    def _is_caught_up(self, _reader: R) -> bool:
        """Return True if the reader is known to have all, without a look at the log."""
        return False

    def _is_throttled(self, _tp: TopicPartition, _reader: R, _now_ms: int) -> bool:
        """Return True if this reader gets nothing of the partition for now."""
        return False

    def _sent(self, tp: TopicPartition, size: int, now_ms: int) -> None:
        """Count `size` bytes of the partition as sent."""

    def _goes_on_waiting(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """These partitions were looked at, and give no reason to answer the parked request."""

    # Requests

    def _change(self, request: SessionRequest) -> None:
        for tp in request.forgotten:
            self.forget(tp)
        for tp, fetch in request.named.items():
            self.name(tp, fetch)

    def ask(self, request: SessionRequest, now_ms: int, room: int) -> list[SessionRow] | None:
        """Read at most `room` bytes for this request, whose changes are taken over. Without room, answer bounds only.

        None: the request waits, and `_ready` is called as soon as there is enough to answer."""
        self._limit = min(request.max_bytes, self._max_bytes)
        self._unseen = dict.fromkeys(self.due, True)
        rows = self._read(now_ms, room)
        min_bytes = max(self.least_bytes, min(request.min_bytes, self._limit))
        wait_ms = min(request.max_wait_ms, self._max_wait_ms)
        answers = [row.answer for row in rows]
        disk_wait_ms = max(wait_ms, self._cold_wait_ms)
        self._disk_until_ms = now_ms + disk_wait_ms
        if any(answer.cold is not None for answer in answers):
            wait_ms = disk_wait_ms
        looks_only = wait_ms <= 0 and self._left_out
        if looks_only:
            min_bytes, wait_ms = 1, self._max_wait_ms
        cannot_wait = wait_ms <= 0 or not self.named or (self.due and not room)
        if cannot_wait or is_enough(answers, min_bytes):
            return self._response(rows, now_ms)
        self.pending = PendingFetch(now_ms + wait_ms, AwaitedBytes(min_bytes), looks_only)
        self._park(rows, now_ms)
        return None

    def name(self, tp: TopicPartition, fetch: FetchPartition) -> None:
        """Take over a partition that a request names. While no request waits, this may be done in several steps.

        Raises INVALID_REQUEST if there are too many, and what `Host.watch` raises."""
        known = self.named.get(tp)
        if known is None:
            if len(self.named) >= MAX_SESSION_PARTITIONS:
                raise ErrorCode.INVALID_REQUEST.error(
                    f"a fetch session holds at most {MAX_SESSION_PARTITIONS} partitions"
                )
            self._watching.watch(tp, self)
            self.named[tp] = CachedPartition(fetch)
        else:
            if known.request.current_leader_epoch != fetch.current_leader_epoch:
                known.sent_bounds = None  # the reader may have dropped what was sent in another epoch
            known.request, known.place, known.fresh = fetch, None, True
        self.due[tp] = self._first[tp] = None

    def forget(self, tp: TopicPartition) -> CachedPartition | None:
        """Take over a partition that a request forgets, and return what was known of it."""
        named = self.named.pop(tp, None)
        if named is not None:
            self.due.pop(tp, None)
            self._first.pop(tp, None)
            self._unseen.pop(tp, None)
            self._watching.unwatch(tp, self)
        return named

    def close(self) -> None:
        """End the session. What the leader knows of the reader's offsets stays valid."""
        for tp in self.named:
            self._watching.unwatch(tp, self)
        self.named.clear()
        self.due.clear()
        self.pending = None

    # Reading

    def _read(self, now_ms: int, room: int, *, brings: bool = True) -> list[SessionRow]:
        """Read the due partitions once, within `room` and the request's limits (FE-8, FE-9), and return the results.

        Without `brings`, skip what the last look did not find in memory, and ask the disk for nothing."""
        left = limit = min(self._limit, room)
        rows: list[SessionRow] = []
        for tp in tuple(self.due) if len(self.due) <= self.most_looks else self._turn():
            named = self.named[tp]
            if not named.fresh and (left <= 0 < limit or (not brings and named.place is None)):
                continue
            answer = self._look(tp, named, max(0, left), now_ms, min_one=room > 0 and left == limit, brings=brings)
            if left == limit and tp in self.due and (answer is None or not answer.records):
                self.due[tp] = self.due.pop(tp)  # it had all the room, and gave nothing
            if answer is not None:
                left -= len(answer.records)
                if answer.cold is not None and brings:
                    left -= named.request.max_bytes  # otherwise more than one answer is brought at a time
                rows.append(SessionRow(tp, named.request, answer))
        return rows

    def _turn(self) -> Collection[TopicPartition]:
        """Return the partitions that one pass looks at when too many are due: first those that were named, then others
        in the order of the queue."""
        chosen = set(islice(self._first, self.most_looks))
        others = (tp for tp in self.due if tp not in self._first)
        chosen.update(islice(others, self.most_looks - len(chosen)))
        return [tp for tp in self.due if tp in chosen]

    def _look(
        self, tp: TopicPartition, named: CachedPartition, most: int, now_ms: int, *, min_one: bool, brings: bool = True
    ) -> FetchAnswer | None:
        """Read one partition, or return None if there is nothing to answer for it now."""
        self._first.pop(tp, None)
        counts, fresh, named.fresh = self._unseen.pop(tp, False), named.fresh, False
        reader = self.reader(tp, named.request)
        if isinstance(reader, ErrorCode):
            return FetchAnswer(reader)
        if named.place is not None and self._is_caught_up(reader):
            log, named.has_all = reader.log, True
            if named.sent_bounds != (log.high_watermark, log.log_start_offset):
                return answer_of(log)
            del self.due[tp]
            return None
        throttled = self._is_throttled(tp, reader, now_ms)
        if not fresh and (throttled or named.missing is not None):
            return None
        if throttled:
            most, min_one = 0, False
        how = Reading(most, min_one, named.brought)
        answer = self._fetch(tp, named.request, reader, how, now_ms, counts=counts)
        named.place, named.has_all = answer.place, self._has_all(reader, named.request, answer)
        if most or min_one:  # otherwise what was brought has yet to be read
            named.missing, named.brought = None, NOTHING
        if answer.cold is not None and brings:
            self._bring(tp, named, answer.cold)
        return answer

    def _bring(self, tp: TopicPartition, named: CachedPartition, cold: ColdRead) -> None:
        named.missing = cold
        if self.pending is not None and self._cold_wait_ms:
            self.pending.deadline_ms, self.pending.looks_only = self._disk_until_ms, False
        self._watching.bring(tp, self, cold)

    # Answers

    def answer(self, now_ms: int, room: int) -> list[SessionRow] | None:
        """Answer the parked request with at most `room` bytes, by a new read of all due partitions (FE-13).

        Return None to go on waiting: there is nothing yet, and a read needs more from the disk than was brought, first
        an index and then records."""
        pending, first, rows = self.pending, tuple(self._first), self._read(now_ms, room)
        may_wait = room > 0 and pending is not None and not pending.looks_only and now_ms < pending.deadline_ms
        if (
            may_wait
            and not is_enough((row.answer for row in rows), 1)
            and any(self.named[tp].missing is not None for tp in self.due)
        ):
            self._first |= {tp: None for tp in first if tp in self.due}  # otherwise the same ones take the room again
            rows = self._read(now_ms, room, brings=False)
            if not is_enough((row.answer for row in rows), 1):
                return None
        return self._response(rows, now_ms)

    def _response(self, rows: Iterable[SessionRow], now_ms: int) -> list[SessionRow]:
        """Return the rows with what changed (FE-17). Partitions that give data go to the end of the queue (FE-10)."""
        self.pending = None
        news: list[SessionRow] = []
        for row in rows:
            tp, _, answer = row
            named = self.named[tp]
            if answer.is_refusal or answer.preferred_read_replica is not None:
                named.sent_bounds = None  # the reader takes no high watermark from such an answer (FT-9)
                news.append(row)
                continue
            bounds = (answer.high_watermark, answer.log_start_offset)
            if answer.records or named.sent_bounds != bounds:
                named.sent_bounds = bounds
                news.append(row)
            if answer.records:
                self.due[tp] = self.due.pop(tp, None)
                self._sent(tp, len(answer.records), now_ms)
            self._drop_if_done(row)
        return news

    def _drop_if_done(self, row: SessionRow) -> None:
        """Drop the partition from `due` if the reader has all, knows the bounds, and nothing has happened since."""
        tp, _, answer = row
        named = self.named[tp]
        knows_bounds = named.sent_bounds == (answer.high_watermark, answer.log_start_offset)
        if named.has_all and knows_bounds and tp not in self._unseen:
            self.due.pop(tp, None)

    # Waiting

    def _park(self, rows: Collection[SessionRow], now_ms: int) -> None:
        for row in rows:
            self._drop_if_done(row)
        if self._is_complete((row.topic_partition for row in rows if row.topic_partition in self.due), now_ms):
            self._ready(now_ms)

    def _is_complete(self, partitions: Iterable[TopicPartition], now_ms: int) -> bool:
        """Return True if one of these partitions allows an answer to the parked request now."""
        looked = []
        for tp in partitions:
            if self._completes(tp, now_ms):
                self._first[tp] = None
                return True
            looked.append(tp)
        self._goes_on_waiting(looked, now_ms)
        if self._unseen:
            self._watching.go_on(self)
        return False

    def _completes(self, tp: TopicPartition, now_ms: int) -> bool:
        """Look at this partition again, and return True if the parked request is to be answered (FE-12)."""
        assert self.pending is not None
        named = self.named[tp]
        if named.brought is not NOTHING:
            return True
        if self._unseen.get(tp):  # no pass of the request has looked at it
            answer = self._look(tp, named, 0, now_ms, min_one=False)
            if answer is not None and is_enough((answer,), 1):
                return True
        self._unseen.pop(tp, None)
        reader = self.reader(tp, named.request)
        if named.place is not None and not isinstance(reader, ErrorCode) and self._is_caught_up(reader):
            named.has_all = True
            return False
        throttled = not isinstance(reader, ErrorCode) and self._is_throttled(tp, reader, now_ms)
        try:
            available = available_bytes(reader, named.request, named.place, self.isolation, is_throttled=throttled)
        except ColdRead as cold:
            self._bring(tp, named, cold)
            return False
        return self.pending.awaited.note(tp, available)

    def mark(self, tp: TopicPartition) -> None:
        """`tp` has changed: records, a high watermark, a log start, another role, a setting. Make it due."""
        self.due[tp] = None
        self._unseen.setdefault(tp, False)
        named = self.named[tp]
        named.fresh, named.has_all = True, False

    def on_brought(self, tp: TopicPartition, cold: ColdRead) -> None:
        """The bytes that a read of `tp` needed are in memory. Have it read again, even if the log has changed."""
        named = self.named.get(tp)
        if named is not None and named.missing is cold:
            named.missing, named.brought = None, cold.byte_range
            self.mark(tp)

    def on_moved(self, now_ms: int) -> None:
        """Look at the marked partitions, and answer the parked request if they allow it."""
        if self.pending is None:
            return  # the next request looks at all due partitions
        is_complete = self._is_complete(tuple(islice(self._unseen, self.most_looks)), now_ms)
        if is_complete or (self.pending.looks_only and not self._left_out):
            self._ready(now_ms)

    @property
    def _left_out(self) -> bool:
        """Return True if the request's passes have not looked at all due partitions. Later marks stand behind those."""
        return next(iter(self._unseen.values()), False)

    @property
    def deadline_ms(self) -> int | None:
        """The latest time to answer the parked request; None if none is parked."""
        return self.pending.deadline_ms if self.pending is not None else None
