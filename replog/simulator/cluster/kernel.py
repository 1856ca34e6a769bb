"""What every part of the simulated world runs on: one loop, one network, one disk, one source of chance, one trace."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from replog.rpc.transport import Transport
from replog.simulator.disk.disk import Disk
from replog.simulator.network.network import SimulatedNetwork
from replog.simulator.network.transport import SimulatedTransport
from replog.simulator.runtime.chance import Chance
from replog.simulator.runtime.loop import KERNEL, SimulatedLoop
from replog.simulator.runtime.process import current_process
from replog.simulator.runtime.trace import Trace

WORLD = "world"


class Kernel:
    """One simulation's own. `directory` is where all simulated disks are."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.chance = Chance(seed)
        self.directory = directory
        self.loop = SimulatedLoop(self.chance)  # type: ignore[abstract]
        self.trace = Trace(self.loop.time, _process_name, str(directory))
        self.disk = Disk(self.loop, self.chance, directory)
        self.network = SimulatedNetwork(self.loop, self.chance)
        self._draws: dict[str, int] = {}

    def stream(self, name: str) -> Random:
        """A stream that continues nobody's: the second of a name is another one."""
        self._draws[name] = count = self._draws.get(name, 0) + 1
        return self.chance.stream(f"{name} {count}")

    def transport(self) -> Transport:
        """Of the process that asks."""
        process = current_process()
        assert process is not None
        return SimulatedTransport(self.network, process)

    def outside(self, callback: Callable[..., object], *arguments: Any, after_s: float = 0.0) -> None:
        """Call it in no process: what the world does."""
        self.loop.call_later(after_s, callback, *arguments, context=KERNEL)


def _process_name() -> str:
    process = current_process()
    return process.name if process is not None else WORLD
