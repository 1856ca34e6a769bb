"""Tasks that nobody needs to wait for."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)


def may_fail_unheard(work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    """Start a task whose failure may be ignored: its waiter gets it, if any, and asyncio does not complain."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task


def for_good(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task that runs until it is cancelled, without a waiter. A defect that ends it is logged at once."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_defect)
    return task


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait for their end, whatever it is."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_defect(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (defect := task.exception()) is not None:
        logger.error("%s: this goes on no more until the process is started again", task.get_name(), exc_info=defect)
