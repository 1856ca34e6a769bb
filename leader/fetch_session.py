"""The broker's half of a fetch session: what its reader fetches, what it was told, what is due (divergence 11).

A partition is *due* once it was named, or something happened to it here, until the reader has all that there is and
knows the bounds. A request, a wake-up and an answer look at what is due, and at nothing else: of every other partition
a request says that nothing has changed.

Due partitions stand in a queue. Those that gave data go to its end (FE-10); with more than a response holds, the rest
keep their places, and are not read before their turn unless there is news of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from leader.delayed_fetch import AwaitedBytes, Reader, available_bytes, is_enough
from replog.errors import ErrorCode, ReplogError
from replog.fetch import FetchAnswer, FetchPartition, SessionRequest, SessionResponse, SessionRow
from replog.log.offsets import Isolation, OffsetMetadata
from replog.topic import TopicPartition

MAX_SESSION_PARTITIONS = 100_000

R = TypeVar("R", bound=Reader)


class Host(Protocol):
    """The broker around a session."""

    def watch(self, tp: TopicPartition, session: "FetchSession[R]") -> None:
        """Call `session.mark(tp)` with whatever happens to `tp`, and `session.on_moved` soon after (PR-6)."""

    def unwatch(self, tp: TopicPartition, session: "FetchSession[R]") -> None: ...


@dataclass(slots=True)
class Named:
    """A partition of a session."""

    request: FetchPartition
    told: tuple[int, int] | None = None  # high watermark and log start last sent
    place: OffsetMetadata | None = None  # where the fetch offset lies, once it was read


@dataclass(slots=True, eq=False)
class Parked:
    """The request that waits for an answer."""

    deadline_ms: int
    awaited: AwaitedBytes


class FetchSession(ABC, Generic[R]):
    """One reader's stream, from its first request to its end, served by roles R. Times are monotonic milliseconds.

    What a follower may read is for `FollowerSession` to say, what a consumer may for `ConsumerSession`.
    """

    isolation = Isolation.LOG_END
    least_bytes = 0  # that an answer waits for, however few the request names

    def __init__(self, host: Host, *, max_bytes: int, max_wait_ms: int) -> None:
        self._watching = host
        self._max_bytes = max_bytes
        self._max_wait_ms = max_wait_ms
        self._named: dict[TopicPartition, Named] = {}
        self._due: dict[TopicPartition, None] = {}
        self._fresh: dict[TopicPartition, None] = {}  # of these, what the next request has to read, in turn or not
        self._moved: dict[TopicPartition, None] = {}  # of these, what the parked request was not looked at for yet
        self._parked: Parked | None = None
        self._limit = 0  # bytes of an answer, except that a first batch comes whole

    # Who reads

    @abstractmethod
    def _reader(self, tp: TopicPartition, fetch: FetchPartition) -> R | ErrorCode:
        """Who serves it, or the first thing that is wrong (FE-1)."""

    @abstractmethod
    def _fetch(
        self,
        tp: TopicPartition,
        fetch: FetchPartition,
        reader: R,
        max_bytes: int,
        now_ms: int,
        *,
        min_one: bool,
        counts: bool,
    ) -> FetchAnswer:
        """Read one partition; `counts`: for a request, and not again for one that has waited (ST-9)."""

    @abstractmethod
    def _has_all(self, tp: TopicPartition, fetch: FetchPartition, answer: FetchAnswer) -> bool:
        """Whether nothing can become due without something happening to the partition."""

    @abstractmethod
    def _ready(self, now_ms: int) -> None:
        """The parked request is to be answered: call `answer`."""

    def _is_throttled(self, _tp: TopicPartition, _reader: R, _now_ms: int) -> bool:
        """Whether this reader gets nothing of the partition for now."""
        return False

    def _sent(self, tp: TopicPartition, size: int, now_ms: int) -> None:
        """So many bytes of the partition go out."""

    def _goes_on_waiting(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """These were looked at, and are no reason to answer the parked request."""

    # Requests

    def _ask(self, request: SessionRequest, now_ms: int, room: int) -> SessionResponse | None:
        """Take over what changed and read, at most `room` bytes; 0: bounds alone, at once.

        None: the request waits, and `_ready` is called as soon as there is enough to say.
        """
        for tp in request.forgotten:
            self._forget(tp)
        for tp, fetch in request.named.items():
            self._name(tp, fetch)
        self._limit = min(request.max_bytes, self._max_bytes)
        fresh, self._fresh, self._moved = self._fresh, {}, {}
        rows = self._read(fresh, now_ms, room, counts=True)
        min_bytes = max(self.least_bytes, min(request.min_bytes, self._limit))
        if (
            request.max_wait_ms <= 0
            or not self._named
            or not room
            or is_enough((row.answer for row in rows), min_bytes)
        ):
            return self._response(rows, now_ms)
        self._park(rows, min_bytes, now_ms + min(request.max_wait_ms, self._max_wait_ms), now_ms)
        return None

    def _name(self, tp: TopicPartition, fetch: FetchPartition) -> None:
        known = self._named.get(tp)
        if known is None:
            if len(self._named) >= MAX_SESSION_PARTITIONS:
                raise ReplogError(
                    ErrorCode.INVALID_REQUEST, f"a fetch session holds at most {MAX_SESSION_PARTITIONS} partitions"
                )
            self._watching.watch(tp, self)
            self._named[tp] = Named(fetch)
        else:
            if known.request.current_leader_epoch != fetch.current_leader_epoch:
                known.told = None  # what it was told in another epoch it may not have taken
            known.request = fetch
        self._due[tp] = self._fresh[tp] = None

    def _forget(self, tp: TopicPartition) -> Named | None:
        named = self._named.pop(tp, None)
        if named is not None:
            for some in (self._due, self._fresh, self._moved):
                some.pop(tp, None)
            self._watching.unwatch(tp, self)
        return named

    def close(self) -> None:
        """The stream is over. What it said of its partitions stays true."""
        for tp in self._named:
            self._watching.unwatch(tp, self)
        self._named.clear()
        self._due.clear()
        self._parked = None

    # Reading

    def _read(self, fresh: Collection[TopicPartition], now_ms: int, room: int, *, counts: bool) -> list[SessionRow]:
        """One pass over what is due, in `room` and the request's limits (FE-8, FE-9), `fresh` ones whatever is left."""
        left = limit = min(self._limit, room)
        rows: list[SessionRow] = []
        for tp in tuple(self._due):
            if tp not in fresh and left <= 0 < limit:
                continue
            named = self._named[tp]
            reader = self._reader(tp, named.request)
            if isinstance(reader, ErrorCode):
                rows.append(SessionRow(tp, named.request, FetchAnswer(reader)))
                continue
            throttled = self._is_throttled(tp, reader, now_ms)
            if throttled and tp not in fresh:
                continue
            min_one = room > 0 and left == limit and not throttled
            most = 0 if throttled else max(0, left)
            answer = self._fetch(tp, named.request, reader, most, now_ms, min_one=min_one, counts=counts)
            named.place = answer.place
            left -= len(answer.records)
            rows.append(SessionRow(tp, named.request, answer))
        return rows

    # Answers

    def answer(self, now_ms: int, room: int) -> SessionResponse:
        """To the parked request, in at most `room` bytes: a fresh read of all that is due (FE-13)."""
        self._moved = {}
        return self._response(self._read(self._fresh, now_ms, room, counts=False), now_ms)

    def _response(self, rows: Iterable[SessionRow], now_ms: int) -> SessionResponse:
        """What is new (FE-17); partitions that give data go to the end of the queue (FE-10)."""
        self._parked = None
        news: list[SessionRow] = []
        for row in rows:
            tp, _, answer = row
            named = self._named[tp]
            if answer.is_refusal or answer.preferred_read_replica is not None:
                named.told = None  # the reader takes no high watermark from such an answer (FT-9)
                news.append(row)
                continue
            told = (answer.high_watermark, answer.log_start_offset)
            if answer.records or named.told != told:
                named.told = told
                news.append(row)
            if answer.records:
                self._due[tp] = self._due.pop(tp, None)
                self._sent(tp, len(answer.records), now_ms)
            self._drop_if_done(row)
        return SessionResponse(news)

    def _drop_if_done(self, row: SessionRow) -> None:
        """Not due any more: the reader has all, knows the bounds, and nothing has happened since."""
        tp, fetch, answer = row
        told = self._named[tp].told == (answer.high_watermark, answer.log_start_offset)
        if told and tp not in self._moved and self._has_all(tp, fetch, answer):
            self._due.pop(tp, None)

    # Waiting

    def _park(self, rows: Collection[SessionRow], min_bytes: int, deadline_ms: int, now_ms: int) -> None:
        self._parked = Parked(deadline_ms, AwaitedBytes(min_bytes))
        for row in rows:
            self._drop_if_done(row)
            if row.topic_partition in self._due and self._looks_complete(row.topic_partition, now_ms):
                self._ready(now_ms)
                return
        self._goes_on_waiting((row.topic_partition for row in rows), now_ms)

    def _looks_complete(self, tp: TopicPartition, now_ms: int) -> bool:
        """Whether the parked request is to be answered, after another look at this partition (FE-12)."""
        assert self._parked is not None
        named = self._named[tp]
        reader = self._reader(tp, named.request)
        throttled = not isinstance(reader, ErrorCode) and self._is_throttled(tp, reader, now_ms)
        available = available_bytes(reader, named.request, named.place, self.isolation, is_throttled=throttled)
        return self._parked.awaited.note(tp, available)

    def mark(self, tp: TopicPartition) -> None:
        """Something happened to `tp`: records, a high watermark, a log start, another role, a setting."""
        self._due[tp] = self._fresh[tp] = self._moved[tp] = None

    def on_moved(self, now_ms: int) -> None:
        """Look at what was marked: the parked request may be answered now."""
        if self._parked is None:
            return  # the next request looks at all that is due
        moved, self._moved = self._moved, {}
        for tp in moved:
            if self._looks_complete(tp, now_ms):
                self._ready(now_ms)
                return
        self._goes_on_waiting(moved, now_ms)

    @property
    def deadline_ms(self) -> int | None:
        """When the parked request is answered whatever there is to say."""
        return self._parked.deadline_ms if self._parked is not None else None
