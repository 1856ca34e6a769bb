"""Blocking work that nobody has to wait for: a name server or a silent host may hold it for long."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Daemons:
    """At most `count` threads. Neither a cancellation nor the end of the process, as after Ctrl-C, waits for them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
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
