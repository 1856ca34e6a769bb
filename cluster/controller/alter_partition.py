"""May this leader change this ISR? The controller's answer, row by row (§6.4). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.controller.elections import Situation, change_isr
from replog.errors import ErrorCode
from replog.metadata import NO_BROKER_EPOCH, Broker, PartitionState


@dataclass(frozen=True, slots=True)
class Proposal:
    """One partition's new ISR as its leader asks for it, with the epochs that the leader knew (§6.3)."""

    sender: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # (broker id, broker epoch; -1 unknown)
    recovering: bool

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


def refusal(state: PartitionState, proposal: Proposal, brokers: Mapping[int, Broker]) -> ErrorCode:
    """The first row of §6.4 that refuses the proposal, NONE when it is good. Row 1 is the caller's.

    Rows 2 to 6 come before any look at the members: they are what serialises leader and controller (ISR-13).
    """
    members = set(proposal.members)
    if proposal.leader_epoch > state.leader_epoch:  # row 2: this controller is behind
        return ErrorCode.NOT_CONTROLLER
    if proposal.partition_epoch > state.partition_epoch:  # row 3
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < state.leader_epoch:  # row 4
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.sender != state.leader:  # row 5
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < state.partition_epoch:  # row 6
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(members) != len(proposal.isr) or not members <= set(state.replicas):  # row 7
        return ErrorCode.INVALID_REQUEST
    if state.leader not in members:  # row 8
        return ErrorCode.INVALID_REQUEST
    if proposal.recovering and len(members) > 1:  # row 9
        return ErrorCode.INVALID_REQUEST
    if proposal.recovering and not state.recovering:  # row 10
        return ErrorCode.INVALID_REQUEST
    if not all(_eligible(brokers.get(broker_id), epoch) for broker_id, epoch in proposal.isr):  # row 11
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _eligible(broker: Broker | None, broker_epoch: int) -> bool:
    """Registered, active, and still the process that the leader saw (ISR-14)."""
    return broker is not None and broker.active and broker_epoch in (NO_BROKER_EPOCH, broker.broker_epoch)


def accept(state: PartitionState, proposal: Proposal, situation: Situation) -> PartitionState:
    """The state once a good proposal is taken; the very same state when it says nothing new (ISR-11)."""
    return change_isr(state, proposal.members, situation, recovering=proposal.recovering)
