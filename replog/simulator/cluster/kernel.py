"""The base of a simulated world: one loop, one network, one disk, one source of random numbers, one trace."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from replog.rpc.transport import Transport
from replog.simulator.disk.disk import Disk
from replog.simulator.network.network import SimulatedNetwork
from replog.simulator.network.streams import SimulatedTransport
from replog.simulator.runtime.loop import KERNEL, SimulatedLoop
from replog.simulator.runtime.process import WALL_START_MS, current_process
from replog.simulator.runtime.rng import Rng
from replog.simulator.runtime.trace import Trace

WORLD = "world"


class Kernel:
    """The base of one simulation. `directory` holds all simulated disks."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.rng = Rng(seed)
        self.directory = directory
        self.loop = SimulatedLoop(self.rng)  # type: ignore[abstract]
        self.trace = Trace(self.loop.time, _process_name, str(directory))
        self.disk = Disk(self.loop, self.rng, directory)
        self.network = SimulatedNetwork(self.loop, self.rng)
        self._draws: dict[str, int] = {}

    @property
    def now_s(self) -> float:
        return self.loop.time()

    def wall_ms(self) -> int:
        """Return the time of a wall clock that is right."""
        return WALL_START_MS + int(self.now_s * 1000)

    def stream(self, name: str) -> Random:
        """Return a new stream of random numbers; a second one of the same name draws other numbers."""
        self._draws[name] = count = self._draws.get(name, 0) + 1
        return self.rng.stream(f"{name} {count}")

    def transport(self) -> Transport:
        """Return a transport of the process that calls."""
        process = current_process()
        assert process is not None
        return SimulatedTransport(self.network, process)

    def outside(self, callback: Callable[..., object], *arguments: Any, after_s: float = 0.0) -> None:
        """Call it later outside of every process, as something that the world does."""
        self.loop.call_later(after_s, callback, *arguments, context=KERNEL)


def _process_name() -> str:
    process = current_process()
    return process.name if process is not None else WORLD
