"""Bytes that all of a broker's answers under way may hold together, and who gets how many of them; and what waits.

An answer is read only when there is room for it, and holds its room until its reader has taken it. So readers that do
not read keep this much memory busy and no more, however many they are. As room gets scarce answers get smaller; who
finds none waits in line, and is sent away after a while.

However many readers ask at once, producers and replicas have the event loop in between: one answer is begun in each
pass of it, and whoever is sent away is so some milliseconds after the one before.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

SMALLEST_SHARE = 64 << 10  # bytes: what the last ones get; less is not worth a message
LARGEST_PART = 16  # a share is at most one part in so many of what is left, so that one reader cannot have it all
ROOM_WAIT_S = 1.0  # in line
SENT_AWAY_EVERY_S = 0.005


class Share:
    """What one answer may hold, in bytes; 0: there was no room in time."""

    def __init__(self, budget: "Budget", size: int) -> None:
        self.size = size
        self._budget = budget

    def resize(self, size: int) -> None:
        """To what was found: less, or more, as the first batch of an answer is given whole (FE-9)."""
        self._budget.change(size - self.size)
        self.size = size


class Place:
    """In line."""

    def __init__(self, wanted: int, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.wanted = wanted
        self.until_s = loop.time() + wait_s
        self.granted: asyncio.Future[int] = loop.create_future()


class Budget:
    """`capacity` bytes. `used` exceeds them only by first batches that were larger than their share."""

    def __init__(self, capacity: int, wait_s: float = ROOM_WAIT_S) -> None:
        self.capacity = capacity
        self.used = 0
        self._wait_s = wait_s
        self._line: deque[Place] = deque()
        self._has_granted = False  # in this pass of the event loop
        self._sending_away: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def share(self, wanted: int) -> AsyncIterator[Share]:
        """At most `wanted` bytes, at least one, for the time of the block; none after a while in line."""
        share = Share(self, await self._take(max(1, wanted)))
        try:
            yield share
        finally:
            share.resize(0)

    def change(self, amount: int) -> None:
        self.used += amount
        self._serve()

    async def _take(self, wanted: int) -> int:
        if not self._line and self._can_grant(wanted):
            return self._grant(wanted)
        place = Place(wanted, self._wait_s)
        self._line.append(place)
        self._send_away_later()
        try:
            await asyncio.wait([place.granted])  # which is not cancelled with this
        except asyncio.CancelledError:
            if place.granted.done():
                self.change(-place.granted.result())
            else:
                self._line.remove(place)
                self._serve()  # who comes next may want less
            raise
        return place.granted.result()

    def _serve(self) -> None:
        """Who is first in line, if there is room."""
        if self._line and self._can_grant(self._line[0].wanted):
            place = self._line.popleft()
            place.granted.set_result(self._grant(place.wanted))

    def _can_grant(self, wanted: int) -> bool:
        return not self._has_granted and self.capacity - self.used >= min(wanted, SMALLEST_SHARE, self.capacity)

    def _grant(self, wanted: int) -> int:
        self._has_granted = True
        asyncio.get_running_loop().call_soon(self._on_next_pass)
        granted = min(wanted, max(SMALLEST_SHARE, (self.capacity - self.used) // LARGEST_PART))
        self.used += granted
        return granted

    def _on_next_pass(self) -> None:
        self._has_granted = False
        self._serve()

    def _send_away_later(self) -> None:
        if self._line and self._sending_away is None:
            loop = asyncio.get_running_loop()
            at_s = max(self._line[0].until_s, loop.time() + SENT_AWAY_EVERY_S)
            self._sending_away = loop.call_at(at_s, self._send_away)

    def _send_away(self) -> None:
        self._sending_away = None
        if self._line and self._line[0].until_s <= asyncio.get_running_loop().time():
            self._line.popleft().granted.set_result(0)
            self._serve()
        self._send_away_later()


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
