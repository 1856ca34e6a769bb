"""One simulated operating-system process: everything that runs in it carries it in its context."""

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


RUNNING, PAUSED, DEAD = RunState.RUNNING, RunState.PAUSED, RunState.DEAD


class Killed(BaseException):
    """What a process that is dead gets from the first thing it tries after that. Nothing catches it."""


class SimulatedProcess:
    """A broker's incarnation, the controller or a client; a restart is a new one of the same name."""

    __slots__ = ("busy", "context", "kept", "lost_power", "name", "prune_at", "state", "tasks", "waited_s")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = RUNNING
        self.lost_power = False  # it died without a word: its peers hear nothing
        self.waited_s = 0.0  # its loop, for the disk, in all
        self.busy = False  # the loop's: a callback of it waits for the disk still
        self.kept: deque[Hashable] = deque()  # the loop's: what it may not run, now or ever
        self.tasks: list[asyncio.Task[Any]] = []  # the loop's: while referred to, nothing closes them
        self.prune_at = 16
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)
        self.context.run(OPEN_FILES.set, OpenFiles())

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.value}>"


PROCESS: contextvars.ContextVar[SimulatedProcess] = contextvars.ContextVar("PROCESS")


def current_process() -> SimulatedProcess | None:
    """In which process this runs; None in what is no process: the network, the simulation itself."""
    return PROCESS.get(None)
