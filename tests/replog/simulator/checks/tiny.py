"""A world of one partition, by hand: real logs, real roles, real managers, and the checker after every step."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from follower.partition_follower import PartitionFollower
from leader.follower_state import FetchContext
from leader.partition_leader import PartitionLeader
from replog.config.processes import BrokerConfig
from replog.log.fetch import Reading
from replog.log.log import Log
from replog.metadata.image import MetadataImage
from replog.metadata.values import BrokerRegistration, PartitionState, Topic
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.hosted_replicas import HostedPartition, HostedReplicas
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.simulator.checks.checker import Checker
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.history import History
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import DEAD, SimulatedProcess
from tests.leader.replicas import LAG_MS, ONE_MIB, TP, log_of, record, state
from tests.scenarios.broker import ScenarioClock

TOPIC_ID = b"0123456789abcdef"


class TinyBroker:
    def __init__(self, broker_id: int, directory: Path, clock: ScenarioClock) -> None:
        config = BrokerConfig.parse({"node.id": broker_id, "log.dirs": str(directory)}, "tiny")
        self.image = MetadataImage()
        context = BrokerContext(config, self.image, clock, lambda _: None)
        self.manager = ReplicaManager(context, HostedReplicas(context), lambda *_: True)


class TinyWorld:
    """Brokers 1 to 3, registered with the broker epochs 101 to 103. Each method that does something is one step."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ScenarioClock()
        self.brokers: dict[int, TinyBroker] = {}
        self.image = MetadataImage()
        self.losses = Counter[int]()
        self.history = History()
        self.unflushed: dict[Path, int] = {}  # from which byte on
        self.controller = SimulatedProcess("controller")
        self.client = SimulatedProcess("client-1")
        self._processes: dict[int, SimulatedProcess] = {}
        self._logs = 0
        self.checker = Checker(self)
        self.image.topics[TP.topic] = Topic(TP.topic, TOPIC_ID)
        for broker_id in (1, 2, 3):
            self.register(broker_id, broker_epoch=100 + broker_id)

    @property
    def now_s(self) -> float:
        return self.clock.monotonic_s()

    def process_of(self, broker_id: int) -> SimulatedProcess:
        return self._processes[broker_id]

    def unsynced(self, path: Path) -> int | None:
        return self.unflushed.get(path)

    @property
    def partition(self) -> PartitionLedger:
        return self.checker.partitions[TP, TOPIC_ID]

    # the controller

    def register(self, broker_id: int, *, broker_epoch: int, fenced: bool = False, leaving: bool = False) -> None:
        self.image.brokers[broker_id] = BrokerRegistration(
            broker_id, broker_epoch, b"", f"broker-{broker_id}:9092", "", fenced, leaving
        )

    def record(self, state: PartitionState) -> None:
        """The controller has decided."""
        self.image.partitions[TP] = state
        self.image.version += 1
        self.checker.after_step(self.controller)

    # brokers

    def start(self, broker_id: int, *runs: str, **settings: Any) -> Log:
        """A broker with a log as `log_of` makes them; nothing has led or followed yet, and nothing is looked at."""
        self._logs += 1
        return self.start_with(broker_id, log_of(self.directory / f"log-{self._logs}", *runs, **settings))

    def start_with(self, broker_id: int, log: Log) -> Log:
        before = self._processes.get(broker_id)
        if before is not None:
            before.state = DEAD
        self._processes[broker_id] = SimulatedProcess(f"broker-{broker_id}")
        broker = self.brokers[broker_id] = TinyBroker(broker_id, self.directory, self.clock)
        broker.image.brokers.update(self.image.brokers)
        broker.image.topics, broker.image.partitions = self.image.topics, self.image.partitions
        broker.manager.replicas.hosted[TP] = HostedPartition(TP, TOPIC_ID, log)
        return log

    def hosted(self, broker_id: int) -> HostedPartition:
        return self.brokers[broker_id].manager.replicas.hosted[TP]

    def leader(self, broker_id: int) -> PartitionLeader:
        leader = self.hosted(broker_id).leader
        assert leader is not None
        return leader

    def follower(self, broker_id: int) -> PartitionFollower:
        follower = self.hosted(broker_id).follower
        assert follower is not None
        return follower

    def step(self, broker_id: int) -> None:
        """Something was done to this broker: look."""
        self.checker.after_step(self._processes[broker_id])

    def lead(self, broker_id: int, state: PartitionState) -> PartitionLeader:
        hosted = self.hosted(broker_id)
        if hosted.leader is None:
            image = self.brokers[broker_id].image
            hosted.leader = PartitionLeader(TP, broker_id, hosted.log, image, replica_lag_time_max_ms=LAG_MS)
        hosted.leader.become_leader(state, 100 + broker_id, self.clock.monotonic_ms())
        hosted.follower = None
        self.step(broker_id)
        return hosted.leader

    def elect(self, state: PartitionState) -> PartitionLeader:
        """The controller has decided, and the broker leads."""
        self.record(state)
        return self.lead(state.leader, state)

    def follow(self, broker_id: int, state: PartitionState) -> PartitionFollower:
        hosted = self.hosted(broker_id)
        hosted.leader = None
        if hosted.follower is None:
            hosted.follower = PartitionFollower(TP, hosted.log, backoff_ms=1000)
        hosted.follower.become_follower(state, self.clock.monotonic_ms())
        self.step(broker_id)
        return hosted.follower

    def append(self, leader_id: int, count: int = 1) -> None:
        """The leader appends records, and what that commits it commits."""
        leader = self.leader(leader_id)
        for _ in range(count):
            batch = record(leader.leader_epoch, leader.log.log_end_offset)
            leader.append_records_to_leader(batch, acks=1, wall_ms=0, now_ms=self.clock.monotonic_ms())
        self.step(leader_id)

    def commit(self, leader_id: int, *follower_ids: int) -> None:
        """Three rounds of fetches: they bring what the leader has, tell it so, and hear of the high watermark."""
        for _ in range(3):
            for follower_id in follower_ids:
                self.fetch(leader_id, follower_id)

    def fetch(self, leader_id: int, follower_id: int, *, broker_epoch: int | None = None) -> None:
        leader, follower = self.leader(leader_id), self.follower(follower_id)
        request = follower.next_fetch(self.clock.monotonic_ms(), ONE_MIB)
        assert request is not None
        context = FetchContext(follower_id, 100 + follower_id if broker_epoch is None else broker_epoch)
        answer = leader.fetch_as_follower(context, request, Reading(ONE_MIB, min_one=True))
        leader.on_fetched(context, request, answer, self.clock.monotonic_ms())
        self.step(leader_id)
        follower.on_answer(request, answer, self.clock.monotonic_ms())
        self.step(follower_id)


def alone(directory: Path, *runs: str, epoch: int = 0, **settings: Any) -> TinyWorld:
    """Broker 1 leads, and nobody follows."""
    world = TinyWorld(directory)
    world.record(state(replicas=(1,), isr=(1,), epoch=epoch))
    world.start(1, *runs, **settings)
    world.lead(1, state(replicas=(1,), isr=(1,), epoch=epoch))
    return world


def three(directory: Path, *runs: str, **settings: Any) -> TinyWorld:
    """Broker 1 leads epoch 0, 2 and 3 follow; each has these `runs`, all of it committed, and knows so."""
    world = TinyWorld(directory)
    world.record(state())
    for broker_id in (1, 2, 3):
        world.start(broker_id, *runs, **settings)
    world.lead(1, state())
    for broker_id in (2, 3, 2, 3):
        world.follow(broker_id, state())
        world.fetch(1, broker_id)
    return world


@contextmanager
def violates(invariant: str, *words: str) -> Iterator[None]:
    """The step breaks this rule and no other, and the message has these words."""
    with pytest.raises(Violation) as caught:
        yield
    print(caught.value)
    assert caught.value.invariant == invariant, caught.value
    for word in words:
        assert word in str(caught.value)
