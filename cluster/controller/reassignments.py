"""A partition moves to other brokers while it is in use (CT-14, CT-15, CT-16). Pure.

The controller copies nothing: brokers that are added fetch from the leader and join the ISR like any other, and the
change that brings the last of them in sync completes the move (`elections.settle`).
"""

from collections.abc import Iterable
from dataclasses import replace

from cluster.controller.broker_events import Rules, active_brokers, situation
from cluster.controller.changes import PartitionChanges
from cluster.controller.elections import Situation, in_order, settle, was_unclean
from cluster.controller.records import Decision
from cluster.metadata_image import MetadataImage
from replog.errors import ErrorCode, ReplogError
from replog.metadata import NO_LEADER, PartitionState
from replog.rpc.v1 import controller_pb2 as pb
from replog.topic import TopicPartition


def alter(
    image: MetadataImage, rules: Rules, partitions: Iterable[pb.ReassignablePartition]
) -> Decision[list[pb.AlterPartitionReassignmentResult]]:
    """Start, redirect or cancel; each partition by itself, one result each, in their order."""
    active = active_brokers(image)
    changes = PartitionChanges(image)
    results = []
    for item in partitions:
        tp = TopicPartition(item.topic, item.partition)
        error = ReplogError(ErrorCode.NONE, "")
        try:
            state = changes.get(tp)
            now = situation(image, rules, tp.topic, active)
            if item.HasField("target"):
                check_replicas(image, tp, item.target.broker_ids)
                changes.put(tp, start(state, tuple(item.target.broker_ids), now))
            else:
                changes.put(tp, cancel(tp, state, now))
        except ReplogError as refused:
            error = refused
        result = pb.AlterPartitionReassignmentResult(
            topic=tp.topic, partition=tp.partition, error_code=error.code.name, error_message=error.message
        )
        results.append(result)
    return Decision(changes.records, results)


def check_replicas(image: MetadataImage, tp: TopicPartition, replicas: Iterable[int]) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT unless these are distinct registered brokers, at least one."""
    seen: set[int] = set()
    for replica in replicas:
        if replica in seen:
            raise _invalid(f"{tp}: the target names broker {replica} twice")
        if replica not in image.brokers:
            raise _invalid(f"{tp}: broker {replica} of the target is not registered; start it, or choose another")
        seen.add(replica)
    if not seen:
        raise _invalid(f"{tp}: the target is empty; a partition needs at least one replica")


def start(state: PartitionState, target: tuple[int, ...], situation: Situation) -> PartitionState:
    """CT-14; in mid-way it is another target for what is under way (CT-16).

    What `adding` names was not there when it began, whatever the target is now: so cancelling goes back to the
    beginning, and asking for the same again changes nothing (divergence 23).
    """
    origin = [r for r in state.replicas if r not in state.adding]
    removing = tuple(r for r in state.replicas if r not in target)
    replicas = target + removing
    adding = tuple(r for r in replicas if r not in origin)
    wanted = replace(state, replicas=replicas, adding=adding, removing=removing)
    return settle(state, wanted, situation)


def cancel(tp: TopicPartition, state: PartitionState, situation: Situation) -> PartitionState:
    """CT-16. Raises NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICA_ASSIGNMENT when only replicas that it would drop hold
    all that was committed, unless the topic allows unclean elections and one of the others is alive.
    """
    if not state.reassigning:
        raise ReplogError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{tp}: no reassignment is in progress")
    replicas = tuple(r for r in state.replicas if r not in state.adding)
    isr, elr = in_order(replicas, state.isr), in_order(replicas, state.elr)
    wanted = replace(state, replicas=replicas, isr=isr, adding=(), removing=())
    after = settle(state, wanted, situation)
    loses_all = not (isr or (elr and not state.isr))
    refused = after.leader == NO_LEADER or (was_unclean(state, after) and not situation.unclean_leader_election)
    if loses_all and refused:
        raise _invalid(
            f"{tp}: of the replicas that would stay, {list(replicas)}, none is in sync, so cancelling needs an unclean "
            "election; wait until one is, or allow it with unclean.leader.election.enable=true while one is alive"
        )
    return after


def ongoing(image: MetadataImage, partitions: Iterable[TopicPartition]) -> pb.ListPartitionReassignmentsResponse:
    """Those of `partitions` that are being reassigned; others, and unknown ones, are left out."""
    states = ((tp, image.partitions.get(tp)) for tp in partitions)
    return pb.ListPartitionReassignmentsResponse(
        partitions=[
            pb.OngoingPartitionReassignment(
                topic=tp.topic,
                partition=tp.partition,
                replicas=state.replicas,
                adding_replicas=state.adding,
                removing_replicas=state.removing,
            )
            for tp, state in states
            if state is not None and state.reassigning
        ]
    )


def _invalid(why: str) -> ReplogError:
    return ReplogError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
