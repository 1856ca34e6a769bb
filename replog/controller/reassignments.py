"""A partition moves to other brokers while it is in use (CT-14, CT-15, CT-16). Pure.

Brokers that are added fetch from the leader and join the ISR like any other. The change that brings the last of them
in sync completes the move (`elections.settle`)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from replog.controller.broker_events import Rules, active_brokers, situation
from replog.controller.decision import Decision, PartitionChanges
from replog.controller.elections import Situation, Strategy, in_order, settle
from replog.controller.registration import replicas_fault
from replog.errors import ErrorCode, ReplogError
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_LEADER, PartitionState
from replog.topic import TopicPartition


class Reassignment(NamedTuple):
    """The target of a partition; None cancels its move."""

    topic_partition: TopicPartition
    target: Sequence[int] | None
    throttle: int = 0  # bytes per second until the move ends


def alter(image: MetadataImage, rules: Rules, wanted: Iterable[Reassignment]) -> Decision[list[ReplogError]]:
    """Start, redirect or cancel each move by itself. Answers one error each, in their order; NONE: it is done."""
    active = active_brokers(image)
    changes = PartitionChanges(image)
    errors = []
    for tp, target, throttle in wanted:
        error = ErrorCode.NONE.error("")
        try:
            state = changes.get(tp)
            now = situation(image, rules, tp.topic, active)
            if target is None:
                changes.put(tp, cancel(tp, state, now))
            else:
                if fault := replicas_fault(image, target):
                    raise _invalid(f"{tp}: {fault}")
                if throttle < 0:
                    raise ErrorCode.INVALID_REQUEST.error(f"{tp}: throttle {throttle} < 0; leave it out for none")
                changes.put(tp, start(state, tuple(target), now, throttle))
        except ReplogError as refused:
            error = refused
        errors.append(error)
    return Decision(changes.made, errors)


def start(state: PartitionState, target: tuple[int, ...], situation: Situation, throttle: int = 0) -> PartitionState:
    """Start a move (CT-14), or give the present one a new target and throttle (CT-16).

    `adding` keeps all replicas that were not there when the move began, whatever the target is now. So a cancel goes
    back to the beginning, and the same request again changes nothing (divergence 23)."""
    origin = [r for r in state.replicas if r not in state.adding]
    removing = tuple(r for r in state.replicas if r not in target)
    replicas = target + removing
    adding = tuple(r for r in replicas if r not in origin)
    throttle = throttle if adding else 0
    wanted = replace(state, replicas=replicas, adding=adding, removing=removing, throttle=throttle)
    return settle(state, wanted, situation)


def cancel(tp: TopicPartition, state: PartitionState, situation: Situation) -> PartitionState:
    """Cancel a move (CT-16). Raises NO_REASSIGNMENT_IN_PROGRESS, and INVALID_REPLICA_ASSIGNMENT if only replicas that
    it drops have all committed records. An AGGRESSIVE topic drops them if another one lives, which may lead (CT-31)."""
    if not state.reassigning:
        raise ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.error(f"{tp}: no reassignment is in progress")
    replicas = tuple(r for r in state.replicas if r not in state.adding)
    isr, elr = in_order(replicas, state.isr), in_order(replicas, state.elr)
    wanted = replace(state, replicas=replicas, isr=isr, adding=(), removing=(), throttle=0)
    after = settle(state, wanted, situation)
    loses_all = not (isr or (elr and not state.isr))
    may_lose = situation.strategy is Strategy.AGGRESSIVE and not situation.active.isdisjoint(replicas)
    if loses_all and after.leader == NO_LEADER and not may_lose:
        raise _invalid(
            f"{tp}: of the replicas that would stay, {list(replicas)}, none is in sync, so cancelling needs an unclean "
            "election; wait until one is, or allow it with unclean.leader.election.enable=true while one is alive"
        )
    return after


def ongoing(image: MetadataImage, partitions: Iterable[TopicPartition]) -> list[tuple[TopicPartition, PartitionState]]:
    """Return those of `partitions` that are being reassigned, with their states."""
    states = ((tp, image.partitions.get(tp)) for tp in partitions)
    return [(tp, state) for tp, state in states if state is not None and state.reassigning]


def _invalid(why: str) -> ReplogError:
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT.error(why)
