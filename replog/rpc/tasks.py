"""Work that nobody may wait for any more, or for as long as a process lives."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)


def may_fail_unheard(work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    """A task. Who waits for it hears of its failure; nobody has to, and asyncio does not complain then."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task


def for_good(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """A task that goes on until it is cancelled, and that nobody waits for: a defect that ends it is logged at once."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_tell)
    return task


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (defect := task.exception()) is not None:
        logger.error("%s: this goes on no more until the process is started again", task.get_name(), exc_info=defect)
