"""The timers that the purgatory's was chosen from, for `benchmarks.purgatory`: each with the product's interface."""

import asyncio
import heapq
import selectors
from collections.abc import Callable, Iterator
from typing import Any, Protocol

WHEEL_SIZE = 20
REBUILD_FLOOR = 64


class Entry(Protocol):
    def cancel(self) -> None: ...


class AnyTimer(Protocol):
    """Deadlines in ms; each item is handed out once, not before its deadline, unless it was cancelled."""

    def add(self, deadline_ms: int, item: Any) -> Entry: ...

    def next_deadline_ms(self) -> int | None: ...

    def due(self, now_ms: int) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


class HeapEntry:
    __slots__ = ("deadline_ms", "item", "timer")

    def __init__(self, timer: "HeapTimer", deadline_ms: int, item: Any) -> None:
        self.timer: HeapTimer | None = timer
        self.deadline_ms = deadline_ms
        self.item = item

    def cancel(self) -> None:
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.forget()


class HeapTimer:
    """A heap of deadlines. Cancelling marks; the heap is rebuilt when the marked outnumber the live ones."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, HeapEntry]] = []
        self._sequence = 0
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def add(self, deadline_ms: int, item: Any) -> HeapEntry:
        entry = HeapEntry(self, deadline_ms, item)
        heapq.heappush(self._heap, (deadline_ms, self._sequence, entry))
        self._sequence += 1
        self._live += 1
        return entry

    def next_deadline_ms(self) -> int | None:
        while self._heap and self._heap[0][2].timer is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[Any]:
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            entry = heapq.heappop(self._heap)[2]
            entry.cancel()
            yield entry.item

    def forget(self) -> None:
        self._live -= 1
        if len(self._heap) - self._live > max(self._live, REBUILD_FLOOR):
            self._heap = [row for row in self._heap if row[2].timer is not None]
            heapq.heapify(self._heap)


class _Slot:
    """One bucket of one wheel: its entries, and when it is to be emptied."""

    __slots__ = ("entries", "expiration_ms")

    def __init__(self) -> None:
        self.expiration_ms = -1
        self.entries: dict[WheelEntry, None] = {}


class WheelEntry:
    __slots__ = ("deadline_ms", "item", "slot", "timer")

    def __init__(self, timer: "WheelTimer", deadline_ms: int, item: Any) -> None:
        self.timer: WheelTimer | None = timer
        self.deadline_ms = deadline_ms
        self.item = item
        self.slot: _Slot | None = None

    def cancel(self) -> None:
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.live -= 1
            if self.slot is not None:
                del self.slot.entries[self]
                self.slot = None


class _Wheel:
    __slots__ = ("interval_ms", "now_ms", "slots", "tick_ms")

    def __init__(self, tick_ms: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * WHEEL_SIZE
        self.now_ms = now_ms - now_ms % tick_ms
        self.slots = [_Slot() for _ in range(WHEEL_SIZE)]


class WheelTimer:
    """Kafka's hierarchy of timing wheels (PG-15 to PG-18): 20 buckets each, 1 ms, 20 ms, 400 ms, 8 s, …

    Only buckets stand in the queue of what is to come; one that is due moves its entries a wheel down.
    """

    def __init__(self) -> None:
        self.live = 0
        self._wheels = [_Wheel(1, 0)]
        self._queue: list[tuple[int, int, _Slot]] = []
        self._sequence = 0
        self._due: list[WheelEntry] = []

    def __len__(self) -> int:
        return self.live

    def add(self, deadline_ms: int, item: Any) -> WheelEntry:
        entry = WheelEntry(self, deadline_ms, item)
        self.live += 1
        self._place(entry)
        return entry

    def _place(self, entry: WheelEntry) -> None:
        deadline_ms = entry.deadline_ms
        if deadline_ms < self._wheels[0].now_ms + 1:
            self._due.append(entry)
            return
        level = 0
        while deadline_ms >= self._wheels[level].now_ms + self._wheels[level].interval_ms:
            level += 1
            if level == len(self._wheels):
                below = self._wheels[-1]
                self._wheels.append(_Wheel(below.interval_ms, below.now_ms))
        wheel = self._wheels[level]
        tick = deadline_ms // wheel.tick_ms
        slot = wheel.slots[tick % WHEEL_SIZE]
        slot.entries[entry] = None
        entry.slot = slot
        if slot.expiration_ms != tick * wheel.tick_ms:
            slot.expiration_ms = tick * wheel.tick_ms
            heapq.heappush(self._queue, (slot.expiration_ms, self._sequence, slot))
            self._sequence += 1

    def next_deadline_ms(self) -> int | None:
        """When a bucket is to be emptied: at the earliest deadline or before it."""
        if self._due:
            return self._due[0].deadline_ms
        return self._queue[0][0] if self._queue else None

    def due(self, now_ms: int) -> Iterator[Any]:
        while True:
            while self._due:
                found, self._due = self._due, []
                for entry in found:
                    if entry.timer is not None:
                        entry.cancel()
                        yield entry.item
            if not self._queue or self._queue[0][0] > now_ms:
                return
            self._advance()

    def _advance(self) -> None:
        time_ms, _, slot = heapq.heappop(self._queue)
        for wheel in self._wheels:
            if time_ms < wheel.now_ms + wheel.tick_ms:
                break
            wheel.now_ms = time_ms - time_ms % wheel.tick_ms
        entries, slot.entries, slot.expiration_ms = slot.entries, {}, -1
        for entry in entries:
            entry.slot = None
            self._place(entry)


class AsyncioTimer:
    """`call_at` and `TimerHandle.cancel` of an event loop, as if each operation had a timer of its own there."""

    def __init__(self) -> None:
        self._loop = _Loop()
        self._due: list[Any] = []

    def __len__(self) -> int:
        return sum(not handle.cancelled() for handle in self._loop.scheduled())

    def add(self, deadline_ms: int, item: Any) -> Entry:
        return self._loop.call_at(deadline_ms, self._due.append, item)

    def next_deadline_ms(self) -> int | None:
        return None  # the loop knows

    def due(self, now_ms: int) -> Iterator[Any]:
        self._loop.now_ms = now_ms
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()
        found = self._due[:]
        self._due.clear()
        return iter(found)


class _Loop(asyncio.SelectorEventLoop):
    """Its time is the benchmark's; it never waits."""

    def __init__(self) -> None:
        self.now_ms = 0
        super().__init__(selectors.SelectSelector())

    def time(self) -> float:
        return self.now_ms

    def scheduled(self) -> list[asyncio.TimerHandle]:
        return self._scheduled  # type: ignore[attr-defined, no-any-return]


ALTERNATIVES: dict[str, Callable[[], AnyTimer]] = {
    "heap": HeapTimer,
    "timing wheels": WheelTimer,
    "asyncio": AsyncioTimer,
}
