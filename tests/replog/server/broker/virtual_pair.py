"""A small cluster in virtual time: one controller, two brokers, one topic with its partitions on both of them."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from replog.client import Admin
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.log.log import Log
from replog.rpc import methods
from replog.server.broker.broker import Broker
from replog.server.broker.replicas.hosted_replicas import HostedPartition
from replog.server.controller.formatting import format_cluster, is_formatted
from replog.server.controller.server import ControllerServer
from replog.server.controller.sqlite_store import SqliteStore, StoreInThread
from replog.simulator.cluster.members import SimulatedCleaning
from replog.simulator.network.network import SimulatedNetwork
from replog.simulator.network.streams import SimulatedTransport
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import ProcessClock, SimulatedProcess
from replog.simulator.runtime.rng import Rng
from replog.topic import TopicPartition
from tests.replog.log.batches import client_batch
from tests.replog.server.broker.conftest import TP, produce_request

ONE = client_batch(b"x")
CONTROLLER = "controller:9093"


class VirtualPair:
    """Broker 1 leads from the start on; broker 2 can be killed and started again."""

    def __init__(self, directory: Path, disks: int = 1, **settings: Any) -> None:
        """`disks`: log directories of each broker, below its own if there are several."""
        self.directory = directory
        self.disks = disks
        self.settings = settings  # of each broker
        self.rng = Rng(1)
        self.loop = SimulatedLoop(self.rng)
        self.network = SimulatedNetwork(self.loop, self.rng)
        self.brokers: dict[int, Broker] = {}
        self.processes: dict[int, SimulatedProcess] = {}
        self.client = SimulatedProcess("client")
        self._start_controller()
        for broker_id in (1, 2):
            self.start(broker_id)

    def run(self, work: Any, process: SimulatedProcess | None = None) -> Any:
        task = self.loop.spawn(process or self.client, work)
        assert self.loop.run_until(task.done, self.loop.time() + 60), "it takes too long"
        return task.result()

    def _start_controller(self) -> None:
        async def start() -> ControllerServer:
            config = ControllerConfig(
                listeners=CONTROLLER, metadata_log_dir=self.directory / "controller", broker_session_timeout_ms=1000
            )
            transport = SimulatedTransport(self.network, process)
            if not is_formatted(config.metadata_log_dir):
                format_cluster(config.metadata_log_dir, rng=self.rng.stream("cluster id"))
            server = ControllerServer(
                config,
                StoreInThread(SqliteStore(config.metadata_log_dir)),
                transport,
                self._clock(),
                self.rng.stream("controller"),
            )
            self.store = server.controller._store.blocking
            await server.start()
            return server

        process = self.controller_process = SimulatedProcess("controller")
        self.controller = self.run(start(), process).controller

    def _clock(self) -> ProcessClock:
        return ProcessClock(self.loop, offset_ms=1000)

    def start(self, broker_id: int) -> None:
        name = f"broker-{broker_id}"
        process = self.processes[broker_id] = SimulatedProcess(name)
        settings = {
            "node_id": broker_id,
            "listeners": f"{name}:9092",
            "controller_listener": CONTROLLER,
            "log_dirs": [self.directory / name / str(disk) for disk in range(self.disks)]
            if self.disks > 1
            else self.directory / name,
            "broker_heartbeat_interval_ms": 100,
            "replica_lag_time_max_ms": 2000,
        }
        config = BrokerConfig.model_validate(settings | self.settings)

        async def start() -> None:
            broker = Broker(
                config,
                SimulatedTransport(self.network, process),
                self._clock(),
                self.rng.stream(name),
                SimulatedCleaning(),
            )
            await broker.start()
            self.brokers[broker_id] = broker

        self.run(start(), process)
        self.until(lambda: not self.controller.state.image.brokers[broker_id].fenced, 1e9)

    def kill(self, broker_id: int) -> None:
        """And wait until it is in no ISR."""
        broker = self.brokers.pop(broker_id)
        self.loop.kill(self.processes[broker_id])
        broker.logs.abandon()  # as the end of the process
        self.until(lambda: broker_id not in self.isr, 60)

    def cut(self, one: str = "broker-1", other: str = "broker-2") -> None:
        self.network.block(one, other)
        self.network.block(other, one)

    def until(self, holds: Callable[[], object], seconds: float = 20) -> None:
        """A test fails if it does not hold in so much time."""
        assert self.loop.run_until(holds, self.loop.time() + seconds), f"not within {seconds} s"

    def wait(self, seconds: float) -> None:
        self.loop.run_until(self.loop.time() + seconds)

    def create_topic(self, partitions: int = 1, assignment: Sequence[Sequence[int]] = (), **settings: str) -> None:
        configs = {name.replace("_", "."): value for name, value in settings.items()}
        replicas = assignment or [(1, 2)] * partitions
        self.administer(lambda admin: admin.create_topic("t", assignment=replicas, configs=configs))

    def administer(self, *works: Callable[[Admin], Awaitable[Any]], name: str = "admin") -> list[Any]:
        """What each of them answers. Those of one name choose the same topic ids."""

        async def work() -> list[Any]:
            async with self.admin(name) as admin:
                return [await each(admin) for each in works]

        answers: list[Any] = self.run(work())
        return answers

    def admin(self, name: str = "admin") -> Admin:
        """Those of one name choose the same topic ids."""
        transport = SimulatedTransport(self.network, self.client)
        return Admin("broker-1:9092", transport=transport, rng=self.rng.stream(name))

    def produce(self, *sizes: int, acks: int = -1, partition: int = 0) -> list[float]:
        """One batch of about each size to broker 1; how long each took, in virtual seconds."""

        took = []
        for size in sizes:
            begun = self.loop.time()
            answer = self.produced(TopicPartition("t", partition), records=client_batch(b"x" * size), acks=acks)
            assert answer.error_code == 0, answer
            took.append(self.loop.time() - begun)
        return took

    def produced(self, tp: TopicPartition = TP, broker_id: int = 1, records: bytes = ONE, acks: int = -1) -> Any:
        """What a broker answers to one batch."""
        return self.run(self.ask("produce_once", produce_request(tp, records, acks=acks), broker_id))

    async def ask(self, method: str, request: Any, broker_id: int = 1) -> Any:
        """The row of the answer that is about one partition."""
        channel = SimulatedTransport(self.network, self.client).connect(f"broker-{broker_id}:9092")
        answer = await channel.call(methods.Log[method], request, 40)
        await channel.close()
        head = getattr(answer, "head", answer)
        return (head.answers[0] if method == "produce_once" else head).partitions[0]

    @property
    def isr(self) -> set[int]:
        return set(self.controller.state.image.partitions[TP].isr)

    def log(self, broker_id: int) -> Log:
        return self.hosted(broker_id).log

    def hosted(self, broker_id: int, partition: int = 0) -> HostedPartition:
        return self.brokers[broker_id].manager.replicas.hosted[TopicPartition("t", partition)]

    def dispose(self) -> None:
        for broker_id in list(self.brokers):
            self.loop.kill(self.processes[broker_id])
            self.brokers.pop(broker_id).logs.abandon()
        self.loop.kill(self.controller_process)
        self.store.close()
        failures = self.loop.failures
        self.loop.dispose()
        assert failures == []
