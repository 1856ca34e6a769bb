"""Bytes that all of a broker's answers under way may hold together, and who gets how many of them; and what waits.

An answer is read only when there is room for it, and holds its room until its reader has taken it. So readers that do
not read keep this much memory busy and no more, however many they are. As room gets scarce answers get smaller; who
finds none waits in line, for a bounded time.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

SMALLEST_SHARE = 64 << 10  # bytes: what the last ones get; less is not worth a message
LARGEST_PART = 4  # a share is at most one part in so many of what is left, so that one reader cannot have it all


class Share:
    """What one answer may hold, in bytes; 0: there was no room in time."""

    def __init__(self, budget: "Budget", size: int) -> None:
        self.size = size
        self._budget = budget

    def resize(self, size: int) -> None:
        """To what was found: less, or more, as the first batch of an answer is given whole (FE-9)."""
        self._budget.change(size - self.size)
        self.size = size


class Budget:
    """`capacity` bytes. `used` exceeds them only by first batches that were larger than their share."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self._line: deque[tuple[int, asyncio.Future[int]]] = deque()

    @contextlib.asynccontextmanager
    async def share(self, wanted: int, wait_s: float) -> AsyncIterator[Share]:
        """At most `wanted` bytes, at least one, for the time of the block; none after `wait_s` in line."""
        share = Share(self, await self._take(max(1, wanted), wait_s))
        try:
            yield share
        finally:
            share.resize(0)

    def change(self, amount: int) -> None:
        self.used += amount
        while self._line and self._has_room(self._line[0][0]):
            wanted, turn = self._line.popleft()
            turn.set_result(self._grant(wanted))

    async def _take(self, wanted: int, wait_s: float) -> int:
        if not self._line and self._has_room(wanted):
            return self._grant(wanted)
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        place = (wanted, turn)
        self._line.append(place)
        try:
            await asyncio.wait([turn], timeout=wait_s)
        except asyncio.CancelledError:
            self.change(-self._leave(place))
            raise
        return self._leave(place)

    def _leave(self, place: tuple[int, asyncio.Future[int]]) -> int:
        """What was granted; nothing to one who still stands in line."""
        if place[1].done():
            return place[1].result()
        self._line.remove(place)
        self.change(0)  # who comes next may want less
        return 0

    def _has_room(self, wanted: int) -> bool:
        return self.capacity - self.used >= min(wanted, SMALLEST_SHARE, self.capacity)

    def _grant(self, wanted: int) -> int:
        granted = min(wanted, max(SMALLEST_SHARE, (self.capacity - self.used) // LARGEST_PART))
        self.used += granted
        return granted


class Held:
    """Bytes that are held together. Who is to bring more first waits for room; what several bring at the same moment
    may exceed `capacity`, by what each of them brings at once."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    async def room(self) -> None:
        """At the latest it comes when what is held has timed out."""
        if not self._room.is_set():
            await self._room.wait()

    def add(self, size: int) -> None:
        self._bytes += size
        if self._bytes < self.capacity:
            self._room.set()
        else:
            self._room.clear()
