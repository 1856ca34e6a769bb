"""Work on many things, in slices, so that the event loop can do other things in between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 50  # things at a time, at 10 to 300 us each, and
SLICE_S = 0.002  # not for longer


async def _turn(_begun_s: float) -> None:
    await asyncio.sleep(0)


async def in_slices(items: Iterable[T], rest: Callable[[float], Awaitable[None]] = _turn) -> AsyncIterator[T]:
    """The same items; after every slice of them whatever else the loop has to do is done first, or `rest` is called
    with the time at which the slice was begun.

    So what they are taken from must not change meanwhile, and what is made of them is not made in one step."""
    loop = asyncio.get_running_loop()
    begun_s, count = loop.time(), 0
    for item in items:
        yield item
        count += 1
        if count == SLICE or loop.time() - begun_s >= SLICE_S:
            await rest(begun_s)
            begun_s, count = loop.time(), 0
