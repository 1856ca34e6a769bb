"""Elections on request (CT-11), and those that the controller holds by itself (CT-12). Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from replog.controller.broker_events import Rules, active_brokers, situation
from replog.controller.decision import Decision
from replog.controller.elections import Election, elect
from replog.controller.partition_changes import PartitionChanges
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_LEADER, PartitionState
from replog.topic import TopicPartition


class Elected(NamedTuple):
    """The result of an election, and who leads now."""

    error: ReplogError  # NONE: no error
    leader: int


def elect_leaders(
    image: MetadataImage, rules: Rules, election: Election, partitions: Iterable[TopicPartition]
) -> Decision[list[Elected]]:
    """Hold an election, PREFERRED or UNCLEAN, for each partition; one result each, in their order."""
    active = active_brokers(image)
    changes = PartitionChanges(image)
    results = []
    for tp in partitions:
        error = ReplogError(ErrorCode.NONE, "")
        leader = NO_LEADER
        try:
            before = changes.get(tp)
            leader = before.leader
            after = elect(before, situation(image, rules, tp.topic, active), election)
            _check(tp, before, after, election)
            changes.put(tp, after)
            leader = after.leader
        except ReplogError as refused:
            error = refused
        results.append(Elected(error, leader))
    return Decision(changes.made, results)


def _check(tp: TopicPartition, before: PartitionState, after: PartitionState, election: Election) -> None:
    """Raises if there can be no such election (CT-11)."""
    if election is Election.PREFERRED and before.leader == before.replicas[0]:
        raise ReplogError(ErrorCode.ELECTION_NOT_NEEDED, f"{tp} is led by its preferred replica, {before.leader}")
    if election is Election.UNCLEAN and before.leader != NO_LEADER:
        raise ReplogError(ErrorCode.ELECTION_NOT_NEEDED, f"{tp} has a leader, {before.leader}")
    if after.leader == before.leader:
        if election is Election.PREFERRED:
            raise ReplogError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"{tp}'s preferred replica, {before.replicas[0]}, is not alive and in sync "
                f"(in sync: {list(before.isr) or 'none'}); start it, or wait until it has caught up",
            )
        raise ReplogError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"none of {tp}'s replicas {list(before.replicas)} is alive; start one of these brokers",
        )


def rebalance(image: MetadataImage, rules: Rules, limit: int) -> list[Change]:
    """Give leadership back to preferred replicas that can take it, at most `limit` at a time (CT-12)."""
    states = ((tp, image.partitions[tp]) for tp in image.index.displaced)
    candidates = [tp for tp, state in states if state.replicas[0] in state.isr]
    return _hold(image, rules, Election.PREFERRED, candidates, limit)


def retry_unclean(image: MetadataImage, rules: Rules, limit: int) -> list[Change]:
    """Elections for partitions without a leader whose topic allows unclean ones, at most `limit` at a time (CT-12)."""
    return _hold(image, rules, Election.ONLINE, image.index.led_by(NO_LEADER), limit)


def _hold(
    image: MetadataImage, rules: Rules, election: Election, candidates: Iterable[TopicPartition], limit: int
) -> list[Change]:
    active = active_brokers(image)
    changes = PartitionChanges(image)
    for tp in candidates:
        changes.put(tp, elect(changes.get(tp), situation(image, rules, tp.topic, active), election))
        if len(changes.made) == limit:
            break
    return changes.made
