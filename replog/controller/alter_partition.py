"""The controller's answer to a leader that proposes an ISR, row by row (§6.4), or that no in-sync replica reaches and
that asks to lead no more (CT-22, divergence 32). Pure."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from replog.controller.broker_events import Rules, active_brokers, situation, withdraw
from replog.controller.decision import Decision, PartitionChanges
from replog.controller.elections import Situation, change_isr, remove_from_isr
from replog.errors import ErrorCode
from replog.metadata.image import MetadataImage
from replog.metadata.values import LEAST_CANDIDATES, BrokerRegistration, PartitionState
from replog.topic import TopicPartition

INTERVAL_MS = 30_000  # a partition changes its leader by a resignation at most once in so long

Resign = Callable[[TopicPartition, PartitionState, Situation], PartitionState | ErrorCode]
"""The partition's new state after its leader asked to lead no more, or why the leader has to stay."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A partition's new ISR that its leader proposes, with the epochs that the leader knew (§6.3)."""

    topic_partition: TopicPartition
    topic_id: bytes
    sender: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # (broker id, broker epoch)
    recovering: bool
    known: int = 0  # the newest metadata version that the sender knew; 0: it does not say

    @property
    def resigns(self) -> bool:
        """True if the leader leaves itself out: it asks to lead no more (CT-22)."""
        return self.sender not in self.members

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


class Verdict(NamedTuple):
    """The answer to a proposal: an error, or the new state of the partition, which the sender still leads."""

    error: ErrorCode
    state: PartitionState | None = None


def alter_partition(
    image: MetadataImage, rules: Rules, sender: BrokerRegistration, proposals: Iterable[Proposal], resign: Resign
) -> Decision[list[Verdict]]:
    """Decide on each partition by itself; one commit has all that are accepted. The sender's broker epoch is checked.

    A sender that resigns does not hear its followers: it leaves the in-sync sets that they lead (CT-23)."""
    active = active_brokers(image)
    changes = PartitionChanges(image)
    unheard: set[int] = set()  # followers of the sender, if it resigns
    verdicts = []
    for proposal in proposals:
        tp = proposal.topic_partition
        answer = None
        topic, state = image.topics.get(tp.topic), changes.find(tp)
        if topic is None or state is None:  # row 1
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif proposal.topic_id != topic.topic_id:  # row 1: the name was deleted and created again
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif (error := refusal(state, proposal, image.brokers, image.broker_versions)) is ErrorCode.NONE:
            now = situation(image, rules, tp.topic, active)
            if proposal.resigns:
                accepted = resign(tp, state, now)
            else:  # the very same state if the proposal changes nothing (ISR-11); it may complete a move (CT-15)
                accepted = change_isr(state, proposal.members, now, recovering=proposal.recovering)
            if isinstance(accepted, ErrorCode):
                error = accepted
            else:
                changes.put(tp, accepted)
                unheard.update(candidates(state) if proposal.resigns else ())
                if accepted.leader == sender.broker_id:
                    answer = accepted
                else:  # it resigned, or the change completed a reassignment that removes it (CT-15)
                    error = ErrorCode.NEW_LEADER_ELECTED
        verdicts.append(Verdict(error, answer))
    if not unheard:
        return Decision(changes.made, verdicts)
    return Decision(chain(changes.made, withdraw(image, rules, sender.broker_id, unheard)), verdicts)


def refusal(
    state: PartitionState, proposal: Proposal, brokers: Mapping[int, BrokerRegistration], since: Mapping[int, int]
) -> ErrorCode:
    """Return the error of the first row of §6.4 that refuses the proposal, or NONE. The caller checks row 1. `since`
    has the version of each broker's record.

    Rows 2 to 6 come before the members are checked: they order the leader's and the controller's changes (ISR-13)."""
    members = set(proposal.members)
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # rows 2 and 3: this controller is behind
    if proposal.leader_epoch < state.leader_epoch:  # row 4
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.sender != state.leader:  # row 5
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < state.partition_epoch:  # row 6
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(members) != len(proposal.isr) or not members <= set(state.replicas):  # row 7
        return ErrorCode.INVALID_REQUEST
    if proposal.resigns and members != set(state.isr) - {state.leader}:  # row 8, CT-22
        return ErrorCode.INVALID_REQUEST
    if proposal.recovering and (len(members) > 1 or not state.recovering):  # rows 9 and 10
        return ErrorCode.INVALID_REQUEST
    if not all(_eligible(brokers.get(broker_id), epoch) for broker_id, epoch in proposal.isr):  # row 11
        return ErrorCode.INELIGIBLE_REPLICA
    if proposal.known and any(since[member] > proposal.known for member in members.difference(state.isr)):
        # row 12, ISR-21: the leader may have heard meanwhile that it was refused, and go on without that replica
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _eligible(broker: BrokerRegistration | None, broker_epoch: int) -> bool:
    """Registered, active, and still the process that the leader saw (ISR-14)."""
    return broker is not None and broker.active and broker_epoch == broker.broker_epoch


def candidates(state: PartitionState) -> tuple[int, ...]:
    """Return the brokers that may lead if the leader leaves the ISR: they have all committed records."""
    return tuple(r for r in state.isr if r != state.leader) or state.elr


class Resignations:
    """The partitions whose leader resigned within the interval. They need not outlive the process.

    The next leader is in sync, or eligible if no other is in sync (ISR-17), and answers the controller now: no
    committed record is lost. The old leader leaves the ISR in the same record, otherwise the new one would wait for it
    and commit nothing. Perhaps it does not reach the others either, and asks, too: hence the interval."""

    def __init__(self) -> None:
        self._granted_ms: OrderedDict[TopicPartition, int] = OrderedDict()  # oldest first

    def resign(
        self, tp: TopicPartition, state: PartitionState, situation: Situation, present: Set[int], now_ms: int
    ) -> PartitionState | ErrorCode:
        """Return the state with another leader, one of those `present`, or why this one has to stay."""
        alive = situation.active.intersection(candidates(state), present)
        minimum = min(situation.min_insync_replicas, len(state.replicas))  # PR-2
        if len(alive) < max(LEAST_CANDIDATES, minimum):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if self.has_just(tp, now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self._granted_ms[tp] = now_ms
        return remove_from_isr(state, state.leader, replace(situation, active=alive))

    def has_just(self, tp: TopicPartition, now_ms: int) -> bool:
        """Return True if the partition's leader resigned within the interval."""
        while self._granted_ms and next(iter(self._granted_ms.values())) <= now_ms - INTERVAL_MS:
            self._granted_ms.popitem(last=False)
        return tp in self._granted_ms
