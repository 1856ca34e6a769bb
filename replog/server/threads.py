"""Blocking work, done in a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Do `work`, which waits for the disk, in a thread; its result or its error.

    A cancellation takes effect once the work is done: a thread cannot be stopped, and until it has ended nobody else
    may write the same files or let go of their lock.
    """
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # marks it as seen
        raise
