"""Work on many things, in slices, so that the event loop can do other work in between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 50  # things of a slice, at 10 to 300 us each
SLICE_S = 0.002  # no slice is longer


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
