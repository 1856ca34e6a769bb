"""A host with a simulated disk, for tests that need no loop."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replog.simulator.disk.disk import Disk
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess
from replog.simulator.runtime.rng import Rng


class Host:
    """One host with a disk; `do` runs something in its process and returns its result or its error.

    In a `with` block the disk stands in for the machine's; then the process is dead.
    """

    def __init__(self, directory: Path, seed: int = 1) -> None:
        self.loop = SimulatedLoop(Rng(seed))
        self.disk = Disk(self.loop, Rng(seed), directory)
        self.home = directory / "broker-1"
        self.home.mkdir(parents=True)
        self.boot()

    def __enter__(self) -> "Host":
        self.disk.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.kill(self.process)
        self.disk.__exit__()

    def boot(self) -> None:
        self.process = SimulatedProcess("broker-1")

    def do(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return self.process.context.copy().run(work, *arguments)

    def lose_power(self, seed: int) -> None:
        self.loop.kill(self.process, power_loss=True)
        self.disk.power_loss(self.home, random.Random(seed))
        self.boot()
