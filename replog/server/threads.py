"""Blocking work, done in a thread."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

WORKERS = 16  # more work waits for its turn


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
