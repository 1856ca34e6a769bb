"""Deadlines of delayed operations: a bucket for every millisecond that has any, and a heap of these milliseconds.

Nearly every deadline is cancelled long before it comes, so adding and cancelling only change a bucket. The size of the
heap is bounded by the longest timeout in milliseconds, however many operations wait; so is the work to rebuild it, when
most of its milliseconds have lost their buckets."""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_REBUILD_FLOOR = 64  # milliseconds without a bucket that are not worth a rebuild


class TimerEntry(Generic[T]):
    """One deadline, cancelled at most once, when its operation is completed (PG-2)."""

    __slots__ = ("_timer", "deadline_ms", "item")

    def __init__(self, timer: "Timer[T]", deadline_ms: int, item: T) -> None:
        self._timer: Timer[T] | None = timer
        self.deadline_ms = deadline_ms
        self.item = item

    @property
    def live(self) -> bool:
        return self._timer is not None

    def cancel(self) -> None:
        """Forget this deadline; nothing happens if it was cancelled or has fired."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer._forget(self)


class Timer(Generic[T]):
    """Deadlines in monotonic milliseconds, handed out in order and never early (PG-19)."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[TimerEntry[T], None]] = {}  # no bucket is empty
        self._deadlines: list[int] = []  # a heap: all of the buckets', and some of buckets that are gone
        self._live = 0

    def __len__(self) -> int:
        """The number of deadlines neither cancelled nor fired."""
        return self._live

    def add(self, deadline_ms: int, item: T) -> TimerEntry[T]:
        entry = TimerEntry(self, deadline_ms, item)
        bucket = self._buckets.get(deadline_ms)
        if bucket is None:
            self._buckets[deadline_ms] = {entry: None}
            heapq.heappush(self._deadlines, deadline_ms)
        else:
            bucket[entry] = None
        self._live += 1
        return entry

    def next_deadline_ms(self) -> int | None:
        while self._deadlines and self._deadlines[0] not in self._buckets:
            heapq.heappop(self._deadlines)
        return self._deadlines[0] if self._deadlines else None

    def due(self, now_ms: int) -> Iterator[T]:
        """Take out every item whose deadline has come, the earliest first; among equals the oldest."""
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            for entry in tuple(self._buckets[deadline_ms]):
                if entry.live:  # a completion before it may have cancelled it
                    entry.cancel()
                    yield entry.item

    def _forget(self, entry: TimerEntry[T]) -> None:
        self._live -= 1
        bucket = self._buckets[entry.deadline_ms]
        del bucket[entry]
        if not bucket:
            del self._buckets[entry.deadline_ms]
            if len(self._deadlines) > 2 * len(self._buckets) + _REBUILD_FLOOR:
                self._deadlines = sorted(self._buckets)
