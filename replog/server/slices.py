"""Work on many things, in slices, so that the event loop can do other things in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 50  # things at a time: some milliseconds, at 10 to 300 us each


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The same items; after every fifty whatever else the loop has to do is done first.

    So what they are taken from must not change meanwhile, and what is made of them is not made in one step.
    """
    for count, item in enumerate(items, 1):
        yield item
        if count % SLICE == 0:
            await asyncio.sleep(0)
