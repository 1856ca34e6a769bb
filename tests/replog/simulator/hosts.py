"""A host with a simulated disk, for tests without a loop, and a client and a server on the simulated network."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from replog.rpc import methods
from replog.simulator.disk.disk import Disk
from replog.simulator.network.network import SimulatedNetwork
from replog.simulator.network.streams import SimulatedTransport
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess
from replog.simulator.runtime.rng import Rng
from tests.replog.rpc.handlers import Handlers, ask

ADDRESS = "broker-1:9092"


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


class Pair:
    """A client and a server."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = Rng(seed)
        self.loop = SimulatedLoop(self.rng)
        self.network = SimulatedNetwork(self.loop, self.rng)
        self.client = SimulatedProcess("client-1")
        self.handlers = Handlers()
        self.start()
        self.channel = SimulatedTransport(self.network, self.client).connect(ADDRESS)

    def start(self) -> None:
        self.server = SimulatedProcess("broker-1")
        listening = SimulatedTransport(self.network, self.server).listen(ADDRESS)
        listening.add(methods.LOG, self.handlers)
        listening.add(methods.INSPECTION, self.handlers)
        self.listening = listening
        assert self.loop.run_until_complete(self.loop.spawn(self.server, listening.start())) == ADDRESS

    def run(self, work: Awaitable[Any], limit_s: float = 60.0) -> Any:
        task = self.loop.spawn(self.client, work)  # type: ignore[arg-type]
        assert self.loop.run_until(task.done, self.loop.time() + limit_s), "it takes too long"
        return task.result()

    async def ask(self, *topics: str, timeout_s: float = 5.0) -> list[str]:
        return await ask(self.channel, *topics, timeout_s=timeout_s)
