"""A client and a server that talk over the simulated network."""

from collections.abc import Awaitable
from typing import Any

from replog.rpc import methods
from replog.simulator.network.network import SimulatedNetwork
from replog.simulator.network.transport import SimulatedTransport
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess
from replog.simulator.runtime.rng import Rng
from tests.replog.rpc.handlers import Handlers, ask

ADDRESS = "broker-1:9092"


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
