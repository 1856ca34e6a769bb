"""Tasks that nobody needs to wait for, blocking work, which a name server or a silent host may hold for long, and what
forks do to both: a child has the same sockets, and nothing runs there."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

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


class OfOneProcess(Protocol):
    def forked(self) -> None:
        """Called in a child, where this is a copy."""


_copied: WeakSet[OfOneProcess] = WeakSet()
notify_of_forks = _copied.add


def _in_child() -> None:
    for thing in list(_copied):
        thing.forked()


os.register_at_fork(after_in_child=_in_child)


class Daemons:
    """At most `count` threads. Neither a cancellation nor the end of the process, as after Ctrl-C, waits for them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.forked()
        notify_of_forks(self)

    def forked(self) -> None:
        """Start without threads, also in a child process, which has none."""
        self._started = 0
        self._waiting = SimpleQueue[tuple[Future[Any], Callable[[], Any]]]()

    async def do(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, or raise its error. It waits for its turn while all threads are busy."""
        done: Future[T] = Future()
        self._waiting.put((done, work))
        if self._started < self._count:
            self._started += 1
            Thread(target=self._work, args=(self._waiting,), daemon=True).start()
        return await asyncio.wrap_future(done)

    @staticmethod
    def _work(waiting: "SimpleQueue[tuple[Future[Any], Callable[[], Any]]]") -> None:
        while True:
            done, work = waiting.get()
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(work())
                except BaseException as error:  # noqa: BLE001 - raised by the waiter
                    done.set_exception(error)


of_commands = Daemons(8)
