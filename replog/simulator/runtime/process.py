"""One simulated operating-system process, which everything that runs in it has in its context; and a host's clocks."""

import asyncio
import contextvars
import enum
from collections import deque
from collections.abc import Hashable
from typing import Any

from replog.log.files.open_files import OPEN_FILES, OpenFiles


class RunState(enum.Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


CONTROLLER = "controller"  # the names of controllers' processes begin with it, and no others
RUNNING, PAUSED, DEAD = RunState.RUNNING, RunState.PAUSED, RunState.DEAD


class Killed(BaseException):
    """Raised by the first call that a process makes after its death. Nothing catches it."""


class SimulatedProcess:
    """A broker's incarnation, a controller or a client; a restart makes a new one of the same name."""

    __slots__ = ("busy_since", "context", "kept", "lost_power", "name", "prune_at", "state", "tasks", "waited_s")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = RUNNING
        self.lost_power = False  # it died silently: its peers hear nothing
        self.waited_s = 0.0  # the time that its loop has waited for the disk, in waits that are over
        self.busy_since: float | None = None  # the loop's: since when a callback of it waits for the disk
        self.kept: deque[Hashable] = deque()  # the loop's: callbacks that must not run now, or ever
        self.tasks: list[asyncio.Task[Any]] = []  # the loop's: a task without a reference would be closed
        self.prune_at = 16
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)
        self.context.run(OPEN_FILES.set, OpenFiles())

    def ran_s(self, now_s: float) -> float:
        """Return the seconds in which its loop did not wait for the disk, by the simulation's clock."""
        return (now_s if self.busy_since is None else self.busy_since) - self.waited_s

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.value}>"


PROCESS: contextvars.ContextVar[SimulatedProcess] = contextvars.ContextVar("PROCESS")


def current_process() -> SimulatedProcess | None:
    """Return the process that runs; None in the network and the simulation itself, which are in none."""
    return PROCESS.get(None)


WALL_START_MS = 1_750_000_000_000  # the wall clock's time at the start of every simulation


class ProcessClock:
    """A `Clock` that runs `rate` times as fast as time: the monotonic one from `offset_ms` on, the wall clock wrong by
    `skew_ms`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, offset_ms: int = 0, rate: float = 1.0, skew_ms: int = 0
    ) -> None:
        self._loop = loop
        self._offset_ms = offset_ms
        self._rate = rate
        self.skew_ms = skew_ms

    def monotonic_ms(self) -> int:
        return self._offset_ms + int(self._loop.time() * 1000 * self._rate)

    def monotonic_s(self) -> float:
        return self._offset_ms / 1000 + self._loop.time() * self._rate

    def wall_ms(self) -> int:
        return WALL_START_MS + self.skew_ms + int(self._loop.time() * 1000 * self._rate)

    def jump(self, by_ms: int) -> None:
        """Set the wall clock forward or back."""
        self.skew_ms += by_ms
