"""Work on many things, in slices, so that the event loop can do other work in between.

Creating or deleting thousands of replicas takes seconds of CPU, during which producers and consumers would wait. So
while records move, each slice of work that is not urgent is followed by a rest of several times its length. A broker
without clients does not rest."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from replog.server.clock import Clock

T = TypeVar("T")

SLICE = 50  # things of a slice, at 10 to 300 us each
SLICE_S = 0.002  # no slice is longer
SERVED_MS = 1000  # a client counts as served for so long after its last record
RESTS = 8  # a rest is so many times as long as its slice; with 4, a producer noticed (docs/performance.md)
LEAST_REST_S, LONGEST_REST_S = 0.001, 0.1


async def _turn(_begun_s: float) -> None:
    await asyncio.sleep(0)


async def in_slices(items: Iterable[T], rest: Callable[[float], Awaitable[None]] = _turn) -> AsyncIterator[T]:
    """Yields the items. After each slice the loop does its other work, or `rest` is called with the slice's start.

    So `items` must not change meanwhile, and others see the work half done."""
    loop = asyncio.get_running_loop()
    begun_s, count = loop.time(), 0
    for item in items:
        yield item
        count += 1
        if count == SLICE or loop.time() - begun_s >= SLICE_S:
            await rest(begun_s)
            begun_s, count = loop.time(), 0


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

    async def rest(self, begun_s: float) -> None:
        """Rest after a slice that was begun at `begun_s`, loop time."""
        elapsed_s = asyncio.get_running_loop().time() - begun_s
        rest_s = (
            max(LEAST_REST_S, min(RESTS * elapsed_s, LONGEST_REST_S)) if self.serves and not self.is_urgent() else 0.0
        )
        await asyncio.sleep(rest_s)

    def in_slices(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yields the items like the function of this name, with rests."""
        return in_slices(items, self.rest)
