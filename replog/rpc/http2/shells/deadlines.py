"""Deadlines of the calls of one connection. Most calls end long before theirs, so all share one timer of the loop."""

import asyncio
from collections.abc import Callable
from operator import itemgetter
from typing import Any


class Deadlines:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: dict[Any, tuple[float, Callable[[Any], object]]] = {}
        self._timer: asyncio.TimerHandle | None = None  # rings at the earliest deadline, or before

    def set(self, what: Any, seconds: float, expire: Callable[[Any], object]) -> None:
        """Call `expire(what)` after so many seconds, unless it is dropped before."""
        at = self._loop.time() + seconds
        self._due[what] = at, expire
        if self._timer is None or at < self._timer.when():
            self._look_at(at)

    def drop(self, what: Any) -> None:
        self._due.pop(what, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        passed = [(at, what) for what, (at, _) in self._due.items() if at <= now]
        for _, what in sorted(passed, key=itemgetter(0)):
            if (due := self._due.pop(what, None)) is not None:  # another's end may have dropped it
                due[1](what)
        if self._due:
            self._look_at(min(at for at, _ in self._due.values()))
