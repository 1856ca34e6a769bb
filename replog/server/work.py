"""Work that would hold the event loop: in slices, so that the loop can do other work in between, or in a thread.

Creating or deleting thousands of replicas takes seconds of CPU, during which producers and consumers would wait. So
while records move, each slice of work that is not urgent is followed by a rest of several times its length. A broker
without clients does not rest."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from replog.server.clock import Clock

T = TypeVar("T")

SLICE = 50  # things of a slice, at 10 to 300 us each
SLICE_S = 0.002  # no slice is longer
SERVED_MS = 1000  # a client counts as served for so long after its last record
RESTS = 8  # a rest is so many times as long as its slice; with 4, a producer noticed (docs/performance.md)
LEAST_REST_S, LONGEST_REST_S = 0.001, 0.1
WORKERS = 16  # threads; more work waits for its turn


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


def start_workers() -> None:
    """Start all threads that will wait for this event loop's disks, before it serves.

    Otherwise the loop would start them while it serves, which held it for 50 ms on busy cores."""
    workers, all_run = ThreadPoolExecutor(WORKERS, "worker"), threading.Barrier(WORKERS + 1)
    for _ in range(WORKERS):
        workers.submit(all_run.wait)
    all_run.wait()
    asyncio.get_running_loop().set_default_executor(workers)


async def in_thread(work: Callable[[], T]) -> T:
    """Do `work`, which waits for the disk, in a thread. Return its result or raise its error.

    A cancellation takes effect once the work is done: a thread cannot be stopped, and others could otherwise write the
    same files or release their lock meanwhile."""
    working = asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        working.exception()  # marks it as seen
        raise cancelled
    return working.result()
