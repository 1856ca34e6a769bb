"""Work that goes on though those who wait for it may be gone before it has ended."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def may_fail_unheard(work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    """A task. Who waits for it hears of its failure; nobody has to, and asyncio does not complain then."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task
