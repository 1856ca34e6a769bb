"""Deadlines of delayed operations: a heap with lazy cancellation.

Nearly every entry is cancelled long before it is due, so cancelling only marks it; the heap is rebuilt when the
marked entries outnumber the live ones. Memory therefore stays within twice the live entries (plus a constant).
"""

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")

_REBUILD_FLOOR = 64  # cancelled entries below this many are not worth a rebuild


class TimerEntry(Generic[T]):
    """One deadline. Cancelled at most once, by whoever completes the thing it stands for (PG-2)."""

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
            timer._forget()


class Timer(Generic[T]):
    """Deadlines in monotonic milliseconds, handed out in order and never early (PG-19)."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerEntry[T]]] = []
        self._sequence = 0  # orders equal deadlines by insertion
        self._live = 0

    def __len__(self) -> int:
        """Deadlines neither cancelled nor fired."""
        return self._live

    def add(self, deadline_ms: int, item: T) -> TimerEntry[T]:
        entry = TimerEntry(self, deadline_ms, item)
        heapq.heappush(self._heap, (deadline_ms, self._sequence, entry))
        self._sequence += 1
        self._live += 1
        return entry

    def next_deadline_ms(self) -> int | None:
        """The earliest live deadline, or None."""
        while self._heap and not self._heap[0][2].live:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> T | None:
        """Take out the earliest item whose deadline has come, or None."""
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        entry = heapq.heappop(self._heap)[2]
        entry.cancel()
        return entry.item

    def _forget(self) -> None:
        self._live -= 1
        if len(self._heap) - self._live > max(self._live, _REBUILD_FLOOR):
            self._heap = [entry for entry in self._heap if entry[2].live]
            heapq.heapify(self._heap)
