"""Elections on request (CT-11), and those that the controller holds on its own (CT-12). Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replog.controller.broker_events import Rules, active_brokers, partition_changes, situation
from replog.controller.decision import Decision, PartitionChanges
from replog.controller.elections import Election, Situation, elect
from replog.controller.evidence import Evidence, leader_by_evidence, leader_on_request
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_LEADER, PartitionState
from replog.topic import TopicPartition


class Elected(NamedTuple):
    error: ReplogError  # NONE: no error
    leader: int


def elect_leaders(
    image: MetadataImage, rules: Rules, evidence: Evidence, election: Election, partitions: Iterable[TopicPartition]
) -> Decision[list[Elected]]:
    """Hold a PREFERRED or UNCLEAN election for each partition. Answers one result each, in their order."""
    active = active_brokers(image)
    changes = PartitionChanges(image)
    results = []
    for tp in partitions:
        error = ErrorCode.NONE.error("")
        leader = NO_LEADER
        try:
            before = changes.get(tp)
            leader = before.leader
            now, by_evidence = situation(image, rules, tp.topic, active), NO_LEADER
            if election is Election.UNCLEAN and before.leader == NO_LEADER:
                by_evidence = leader_on_request(before, now, evidence.answers(image, tp))
            after = elect(before, now, election, by_evidence)
            _check(tp, before, after, election, now)
            changes.put(tp, after)
            leader = after.leader
        except ReplogError as refused:
            error = refused
        results.append(Elected(error, leader))
    return Decision(changes.made, results)


def _check(
    tp: TopicPartition, before: PartitionState, after: PartitionState, election: Election, now: Situation
) -> None:
    """Raises if the election is not needed or elects nobody (CT-11)."""
    if election is Election.PREFERRED and before.leader == before.replicas[0]:
        raise ErrorCode.ELECTION_NOT_NEEDED.error(f"{tp} is led by its preferred replica, {before.leader}")
    if election is Election.UNCLEAN and before.leader != NO_LEADER:
        raise ErrorCode.ELECTION_NOT_NEEDED.error(f"{tp} has a leader, {before.leader}")
    if after.leader == before.leader:
        if election is Election.PREFERRED:
            raise ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE.error(
                f"{tp}'s preferred replica, {before.replicas[0]}, is not alive and in sync "
                f"(in sync: {list(before.isr) or 'none'}); start it, or wait until it has caught up"
            )
        live = [replica for replica in before.replicas if replica in now.active]
        raise ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE.error(
            f"none of {tp}'s live replicas {live} has said how far its log goes; try again, and look for a failed disk"
            if live
            else f"none of {tp}'s replicas {list(before.replicas)} is alive; start one of these brokers"
        )


def rebalance(image: MetadataImage, rules: Rules, limit: int) -> list[Change]:
    """Give leadership back to preferred replicas that can take it, at most `limit` at a time (CT-12)."""
    states = ((tp, image.partitions[tp]) for tp in image.index.displaced)
    candidates = [tp for tp, state in states if state.replicas[0] in state.isr]
    active = active_brokers(image)
    changes = PartitionChanges(image)
    for tp in candidates:
        changes.put(tp, elect(changes.get(tp), situation(image, rules, tp.topic, active), Election.PREFERRED))
        if len(changes.made) == limit:
            break
    return changes.made


def recover(
    image: MetadataImage, rules: Rules, evidence: Evidence, now_ms: int, patience_ms: int
) -> Iterator[Change | None]:
    """Elect by what replicas said, where that is enough (CT-12, CT-30). A change is made when the caller takes it."""

    def change(tp: TopicPartition, state: PartitionState, now: Situation) -> PartitionState:
        leader = leader_by_evidence(state, now, evidence.answers(image, tp), now_ms, patience_ms)
        return elect(state, now, by_evidence=leader)

    return partition_changes(image, rules, active_brokers(image), image.index.led_by(NO_LEADER), change)
