"""The bytes that requests of a kind may hold together on a broker: answers that are read, produces that wait.

An answer is read only if there is room for it, and holds a lease until its reader has taken it. So any number of slow
readers hold no more memory.

| | What holds at any time |
|---|---|
| `used` | is the sum of all leases; over `capacity` only by first batches that were larger than their leases (FE-9) |
| a lease | is at most a sixteenth of the free room, so that one reader cannot have it all, or `SMALLEST_LEASE` |
| the line | is served in order; who finds no room within `wait_s` gets none |
| a pass of the event loop | begins one answer, waits end some milliseconds apart: producers and replicas need it, too |
| streams that wait for room | go on together, once, when there is some |
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

SMALLEST_LEASE = 64 << 10  # bytes that are worth a message
LARGEST_PART = 16
ROOM_WAIT_S = 1.0  # the longest wait in line
SENT_AWAY_EVERY_S = 0.005


class Lease:
    """The bytes that one answer may hold, given back at the end of a `with` block."""

    def __init__(self, pool: "BytePool") -> None:
        self.size = 0
        self._pool = pool
        self._place: _Place | None = None

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_: object) -> None:
        self.resize(0)

    async def take(self, wanted: int) -> int:
        """Take at most `wanted` bytes, at least one, and return how many. 0: there was no room in time."""
        self.size = await self._pool.take(max(1, wanted))
        return self.size

    def ask(self, wanted: int, then: Callable[[int], None]) -> None:
        """Call `then` with what `take` would return: now, or when there is room. `resize` ends the wait."""

        def granted(size: int) -> None:
            self._place, self.size = None, size
            then(size)

        if (place := self._pool.ask(max(1, wanted), granted)) is not None:
            self._place = place

    def resize(self, size: int) -> None:
        """Change the lease to the answer's size. That may be more, because the first batch comes whole (FE-9)."""
        if self._place is not None:
            self._pool.withdraw(self._place)
            self._place = None
        if size != self.size:
            self._pool.add(size - self.size)
            self.size = size


class _Place(NamedTuple):
    wanted: int
    until_s: float
    then: Callable[[int], None]


class BytePool:
    def __init__(self, capacity: int, wait_s: float = ROOM_WAIT_S) -> None:
        self.capacity = capacity
        self.used = 0
        self._wait_s = wait_s
        self._line: deque[_Place] = deque()
        self._streams: dict[Callable[[], None], None] = {}
        self._has_granted = False  # True for the rest of a pass of the event loop
        self._sending_away: asyncio.TimerHandle | None = None

    @property
    def has_room(self) -> bool:
        return self.used < self.capacity

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when there is room, at the latest when the requests that hold bytes have timed out."""
        self._streams[go_on] = None

    def add(self, size: int) -> None:
        """Take bytes without a wait, or give some back."""
        self.used += size
        self._serve()
        if self._streams and self.has_room:
            streams, self._streams = self._streams, {}
            for go_on in streams:
                go_on()

    async def take(self, wanted: int) -> int:
        """Take room like `Lease.take`. `add` gives it back."""
        if not self._line and self._can_grant(wanted):
            return self._grant(wanted)
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        place = self._join(wanted, granted.set_result)
        try:
            await asyncio.wait([granted])  # does not cancel the future, unlike awaiting it
        except asyncio.CancelledError:
            if granted.done():
                self.add(-granted.result())
            else:
                self.withdraw(place)
            raise
        return granted.result()

    def ask(self, wanted: int, then: Callable[[int], None]) -> _Place | None:
        """Call `then` with what `take` would return, now or later. None: it was called."""
        if self._line or not self._can_grant(wanted):
            return self._join(wanted, then)
        then(self._grant(wanted))
        return None

    def _join(self, wanted: int, then: Callable[[int], None]) -> _Place:
        place = _Place(wanted, asyncio.get_running_loop().time() + self._wait_s, then)
        self._line.append(place)
        self._send_away_later()
        return place

    def withdraw(self, place: _Place) -> None:
        """Leave the line. `place` was not served yet."""
        self._line.remove(place)
        self._serve()  # the next one may want less, and fit

    def _serve(self) -> None:
        """Grant room to the first in line, if there is any."""
        if self._line and self._can_grant(self._line[0].wanted):
            place = self._line.popleft()
            place.then(self._grant(place.wanted))

    def _can_grant(self, wanted: int) -> bool:
        return not self._has_granted and self.capacity - self.used >= min(wanted, SMALLEST_LEASE, self.capacity)

    def _grant(self, wanted: int) -> int:
        self._has_granted = True
        asyncio.get_running_loop().call_soon(self._on_next_pass)
        granted = min(wanted, max(SMALLEST_LEASE, (self.capacity - self.used) // LARGEST_PART))
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
            self._line.popleft().then(0)
            self._serve()
        self._send_away_later()
