"""The controller of a small model: the shipped decisions, committed at once.

Each public method is a step. `said` has its answer, and the changes that it committed, piece by piece.
"""

import random
from functools import cache
from typing import Any, NamedTuple

from replog.config.processes import ControllerConfig
from replog.controller.alter_partition import Proposal
from replog.controller.broker_lifecycle import Heartbeat
from replog.controller.cluster_state import ClusterState
from replog.controller.decision import Decision, numbered
from replog.controller.evidence import Report
from replog.controller.registration import Registration
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.image import Batch
from replog.metadata.values import NO_BROKER_EPOCH, BrokerRegistration, Claim, PartitionState
from tests.leader.replicas import NOW_MS, TP
from tests.replog.models.replica import TOPIC

BROKERS = (1, 2, 3)
BEGINNING = (
    Change("topic", TOPIC.name, TOPIC, version=1),
    *(
        Change(
            "broker", b, BrokerRegistration(b, 1 + b, bytes([b] * 16), f"h:{b}", "", False, False, True), version=1 + b
        )
        for b in BROKERS
    ),
    Change("partition", TP, PartitionState(BROKERS, BROKERS, 1, 0, 0), TOPIC.topic_id, version=5),
)


@cache
def config(eligible_leaders: bool) -> ControllerConfig:
    settings = {"metadata.log.dir": "/metadata", "eligible.leader.replicas.enable": str(eligible_leaders).lower()}
    return ControllerConfig.parse(settings, "model")


class Decided(NamedTuple):
    """The metadata at one time."""

    brokers: dict[int, BrokerRegistration]
    partition: PartitionState
    version: int

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(broker_id)


class Committed(NamedTuple):
    changes: tuple[Change, ...]
    then: Decided


class Deciding:
    def __init__(self, *, eligible_leaders: bool) -> None:
        self.now_ms = NOW_MS
        self.config = config(eligible_leaders)
        self.state = ClusterState(self.config, random.Random(0))
        self.said: list[Any] = []
        self.stored = {change.key: change for change in BEGINNING}
        self.state.load(BEGINNING, self.now_ms)

    @property
    def partition(self) -> PartitionState:
        return self.state.image.partitions[TP]

    # steps

    def register(self, broker_id: int, is_empty: bool) -> None:
        """A new process; the one before it is gone, and the controller has found that out."""
        before = self.state.image.brokers[broker_id]
        self._decide(self.state.fence_gone(before, self.now_ms))
        missing = [(TOPIC.topic_id, [TP.partition])] if is_empty else []
        incarnation_id = before.broker_epoch.to_bytes(16, "big")
        new = Registration("", broker_id, incarnation_id, before.address, "", NO_BROKER_EPOCH, missing=missing)
        self.said.insert(0, self._decide(self.state.register_broker(new, self.now_ms)))

    def expire(self, brokers: tuple[int, ...]) -> None:
        """Their sessions end together."""
        for broker_id in brokers:
            self.state.sessions.end(broker_id)
        while self._decide(self.state.fence_next_expired(self.now_ms)) is not None:
            pass

    def beat(self, broker_id: int, broker_epoch: int, version: int, ends: tuple[Report, ...]) -> None:
        """A heartbeat, then an election by evidence if there can be one."""
        heartbeat = Heartbeat(self._claim(broker_id, broker_epoch), version, log_ends=ends)
        try:
            self._decide(self.state.heartbeat(heartbeat, self.now_ms))
        except ReplogError as error:
            if error.code is not ErrorCode.STALE_BROKER_EPOCH:
                raise
            return
        self._decide(self.state.recover(self.now_ms))

    def alter(
        self, broker_id: int, broker_epoch: int, known: int, leader_epoch: int, partition_epoch: int, isr: Any
    ) -> None:
        """A proposal; every broker that could take over from a leader that resigns is there."""
        proposal = Proposal(TP, TOPIC.topic_id, broker_id, leader_epoch, partition_epoch, isr, False, known)
        sender = self._claim(broker_id, broker_epoch)
        try:
            (verdict,) = self._decide(self.state.alter_partition(sender, [proposal], set(BROKERS), self.now_ms))
        except ReplogError as error:
            if error.code is not ErrorCode.STALE_BROKER_EPOCH:
                raise
            self.said.insert(0, None)
            return
        self.said.insert(0, verdict)

    def fail_over(self) -> None:
        """Another controller becomes active, and has what is stored."""
        self.state = ClusterState(self.config, random.Random(0))
        self.state.load(sorted(self.stored.values(), key=lambda change: change.version), self.now_ms)

    def run(self, event: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        self.said = []
        self.now_ms += 1
        getattr(self, event)(*arguments)
        return tuple(self.said)

    def close(self) -> None:
        pass

    def _claim(self, broker_id: int, broker_epoch: int) -> Claim:
        known = self.state.image.brokers[broker_id]
        return Claim(broker_id, broker_epoch, known.incarnation_id if known.broker_epoch == broker_epoch else b"old")

    def _decide(self, decision: Decision[Any]) -> Any:
        changes = tuple(change for change in numbered(decision.changes, self.state.image.version) if change)
        if changes:
            self.stored |= {change.key: change for change in changes}
            self.state.apply(Batch(self.state.image, changes), self.now_ms)
            self.said.append(Committed(changes, self.view()))
        return decision.answer

    # what it holds

    def digest(self) -> tuple[Any, ...]:
        state, image = self.state, self.state.image
        evidence = state.evidence.answers(image, TP).log_ends if self.partition.leader < 0 else {}
        return (
            image.version,
            self.partition,
            tuple(image.brokers.values()),
            tuple(image.broker_versions.values()),
            tuple(sorted(evidence.items())),
            tuple(state.sessions.left_ms(b, self.now_ms) > 0 for b in BROKERS),
            len(state.resignations._granted_ms),
        )

    def view(self) -> "Decided":
        return Decided(dict(self.state.image.brokers), self.partition, self.state.image.version)
