"""Callbacks and tasks of a simulated loop, which know their process, and records of their waits."""

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from replog.simulator.runtime.process import PROCESS, SimulatedProcess

T = TypeVar("T")

SIMULATED = frozenset({"replog", "leader", "follower"})  # all but `replog.simulator`
TOLD_CALLERS = 4


@dataclass(frozen=True, slots=True)
class Step:
    """One callback that made its loop wait for the disk; `seconds` is what a usual disk would have taken."""

    seconds: float
    process: str
    asked: dict[str, int]  # the number of operations of each kind
    at_s: float
    callers: str  # `callers()` at the operation with which it had waited for `TOLD_S`

    def __str__(self) -> str:
        operations = ", ".join(f"{count} {kind}" for kind, count in self.asked.items())
        return f"{self.seconds * 1000:.0f} ms in {self.process} at {self.at_s:.6f} s: {operations}; {self.callers}"


def callers() -> str:
    """Return the outermost functions of replog that are running, the innermost of them first."""
    frame: FrameType | None = sys._getframe(1)
    names: list[str] = []
    while frame is not None and frame.f_code.co_qualname != "SimulatedLoop._run":
        package, _, rest = frame.f_globals.get("__name__", "").partition(".")
        if package in SIMULATED and not rest.startswith("simulator"):
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return " < ".join(names[-TOLD_CALLERS:])


class Handle(asyncio.TimerHandle):
    """A callback with the process it runs in; one of `call_soon` has the time of that call as its `when`.

    `in_thread`: it stands for work in a thread, which a busy loop does not delay."""

    __slots__ = ("in_heap", "in_thread", "process")

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: Any,  # the simulated one, which counts its cancelled timers
        context: contextvars.Context,
    ) -> None:
        self._when = when
        self._callback: Callable[..., Any] | None = callback
        self._args: tuple[Any, ...] = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self.process = context.get(PROCESS)
        self.in_heap = False
        self.in_thread = False

    def __repr__(self) -> str:
        return f"<{self._callback!r} at {self._when:.6f} in {self.process}>"

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            if self.in_heap:
                self._loop.timer_cancelled()


class Task(asyncio.Task[T]):
    """A task whose hash is its number, otherwise sets of tasks in asyncio and the shells have a new order each run."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], number: int, process: SimulatedProcess | None, **rest: Any):
        self.number = number
        self.process = process
        super().__init__(coroutine, **rest)

    def __hash__(self) -> int:
        return self.number
