"""Work that is not urgent gives way to clients.

Creating or deleting thousands of replicas takes seconds of CPU, during which producers and consumers would wait. So
while records move, such work is done in slices, each followed by a rest of several times its length. A broker without
clients does not rest."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from replog.server.clock import Clock
from replog.server.slices import in_slices

T = TypeVar("T")

SERVED_MS = 1000  # a client counts as served for so long after its last record
RESTS = 8  # a rest is so many times as long as its slice; with 4, a producer noticed (docs/performance.md)
LEAST_REST_S, LONGEST_REST_S = 0.001, 0.1


class Throttle:
    """Slows all such work of a broker down. It does not rest while `is_urgent` returns True."""

    def __init__(self, clock: Clock) -> None:
        self.is_urgent: Callable[[], bool] = lambda: False
        self._clock = clock
        self._served_ms: int | None = None

    def served(self) -> None:
        """Note that records came or went, a client's or a leader's."""
        self._served_ms = self._clock.monotonic_ms()

    @property
    def serves(self) -> bool:
        return self._served_ms is not None and self._clock.monotonic_ms() - self._served_ms < SERVED_MS

    @property
    def gives_way(self) -> bool:
        return self.serves and not self.is_urgent()

    async def rest(self, begun_s: float) -> None:
        """Rest after a slice that was begun at `begun_s`, loop time."""
        took_s = asyncio.get_running_loop().time() - begun_s
        rest_s = max(LEAST_REST_S, min(RESTS * took_s, LONGEST_REST_S)) if self.gives_way else 0.0
        await asyncio.sleep(rest_s)

    def in_slices(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yields the items like `replog.server.slices.in_slices`, with rests."""
        return in_slices(items, self.rest)
