"""May this leader change this ISR? The controller's answer, row by row (§6.4). Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from cluster.controller.broker_events import Rules, active_brokers, situation, withdraw
from cluster.controller.changes import PartitionChanges
from cluster.controller.elections import Situation, change_isr
from cluster.controller.records import Decision
from cluster.controller.resignations import heirs
from cluster.metadata_image import MetadataImage, partition_to_record
from replog.errors import ErrorCode
from replog.metadata import NO_BROKER_EPOCH, Broker, PartitionState
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.topic import TopicPartition

Resign = Callable[[TopicPartition, PartitionState, Situation], PartitionState | ErrorCode]
"""What becomes of a partition whose leader asks to lead no more, or why it has to stay."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One partition's new ISR as its leader asks for it, with the epochs that the leader knew (§6.3)."""

    sender: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # (broker id, broker epoch; -1 unknown)
    recovering: bool

    @property
    def resigns(self) -> bool:
        """Whether the leader names everybody else: it asks to lead no more (CT-22)."""
        return self.sender not in self.members

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


def alter_partition(
    image: MetadataImage, rules: Rules, sender: Broker, items: Iterable[pb.AlterPartitionItem], resign: Resign
) -> Decision[list[pb.AlterPartitionResult]]:
    """Each partition by itself, all that are accepted in one commit. The sender's broker epoch has been checked.

    A sender that resigns hears its followers nowhere: it leaves the in-sync sets that they lead (CT-23).
    """
    active = active_brokers(image)
    changes = PartitionChanges(image)
    unheard: set[int] = set()  # whoever follows the sender, as far as that matters
    results = []
    for item in items:
        tp = TopicPartition(item.topic, item.partition)
        proposal = _proposal(sender, item)
        answer = None
        topic, state = image.topics.get(tp.topic), changes.find(tp)
        if topic is None or state is None:  # row 1
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif item.topic_id != topic.topic_id:  # row 1: the name was deleted and created again
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif (error := refusal(state, proposal, image.brokers)) is ErrorCode.NONE:
            now = situation(image, rules, tp.topic, active)
            accepted = resign(tp, state, now) if proposal.resigns else accept(state, proposal, now)
            if isinstance(accepted, ErrorCode):
                error = accepted
            else:
                changes.put(tp, accepted)
                unheard.update(heirs(state) if proposal.resigns else ())
                if accepted.leader == sender.broker_id:
                    answer = partition_to_record(tp, item.topic_id, accepted)
                else:  # it resigned, or the change completed a reassignment that takes it out (CT-15)
                    error = ErrorCode.NEW_LEADER_ELECTED
        results.append(
            pb.AlterPartitionResult(topic=tp.topic, partition=tp.partition, error_code=error.name, state=answer)
        )
    if not unheard:
        return Decision(changes.records, results)
    return Decision(chain(changes.records, withdraw(image, rules, sender.broker_id, unheard)), results)


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
    if proposal.resigns and members != set(state.isr) - {state.leader}:  # row 8, CT-22
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
    """The state once a good proposal is taken; the very same state when it says nothing new (ISR-11).

    It may complete a reassignment, and the sender lead no longer (CT-15).
    """
    return change_isr(state, proposal.members, situation, recovering=proposal.recovering)


def _proposal(sender: Broker, item: pb.AlterPartitionItem) -> Proposal:
    return Proposal(
        sender=sender.broker_id,
        leader_epoch=item.leader_epoch,
        partition_epoch=item.partition_epoch,
        isr=tuple((member.broker_id, member.broker_epoch) for member in item.new_isr),
        recovering=item.recovery_state != metadata_pb2.RECOVERED,
    )
