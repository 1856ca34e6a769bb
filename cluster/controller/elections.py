"""Who leads a partition, and what every event does to its record (§9.2, §6.5). Pure functions, state in, state out.

Each returns the very same state when nothing changes, else one with the partition epoch raised by one (INV-4).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from replog.metadata import NO_LEADER, PartitionState


class Election(Enum):
    """CT-8. There is no UNCLEAN kind: an unclean election is always refused, but for ISR-17's last known leader."""

    ONLINE = "online"
    PREFERRED = "preferred"


@dataclass(frozen=True, slots=True)
class Situation:
    """What an election must know besides the partition's own state."""

    active: frozenset[int]  # brokers that may lead: unfenced and not shutting down (CT-7)
    min_insync_replicas: int
    eligible_leader_replicas: bool = True  # ISR-15..ISR-17; without, ISR-19


def change_isr(
    state: PartitionState,
    isr: Iterable[int],
    situation: Situation,
    *,
    unclean: int | None = None,
    election: Election = Election.ONLINE,
    recovering: bool | None = None,
) -> PartitionState:
    """The state once the ISR is `isr`: ELR kept (ISR-15), leader elected if need be (ISR-17), epochs raised (CT-9).

    `unclean` is a replica just known to have stopped uncleanly; `recovering` a new recovery state.
    """
    target = _in_order(state, isr)
    if not target and not situation.eligible_leader_replicas:
        target = state.isr  # ISR-19
    elr = _eligible_leaders(state, target, situation, unclean)
    leader, is_unclean = _elect(state, target or elr, situation, election)
    if leader != NO_LEADER and leader not in target:  # from the ELR, or uncleanly
        target = (leader,)
        elr = tuple(r for r in elr if r != leader) if len(target) < _min_isr(state, situation) else ()
    if is_unclean:
        recovering = True
    last_known = state.leader if state.leader != NO_LEADER else state.last_known_leader
    changed = replace(
        state,
        isr=target,
        elr=elr,
        leader=leader,
        last_known_leader=last_known if leader == NO_LEADER else NO_LEADER,
        recovering=state.recovering if recovering is None else recovering,
    )
    if changed == state:
        return state
    return replace(
        changed,
        leader_epoch=state.leader_epoch + (leader != state.leader),
        partition_epoch=state.partition_epoch + 1,
    )


def remove_from_isr(
    state: PartitionState, broker_id: int, situation: Situation, *, unclean: bool = False
) -> PartitionState:
    """`broker_id` was fenced, is shutting down, or restarted; after an unclean stop it leaves the ELR too (ISR-18)."""
    involved = broker_id in state.isr or broker_id == state.leader or (unclean and broker_id in state.elr)
    if not involved:
        return state
    isr = (r for r in state.isr if r != broker_id)
    return change_isr(state, isr, situation, unclean=broker_id if unclean else None)


def elect(state: PartitionState, situation: Situation, election: Election = Election.ONLINE) -> PartitionState:
    """Hold an election with the ISR as it is."""
    return change_isr(state, state.isr, situation, election=election)


def _eligible_leaders(
    state: PartitionState, isr: tuple[int, ...], situation: Situation, unclean: int | None
) -> tuple[int, ...]:
    """ISR-15: below the minimum nothing commits, so whoever leaves the ISR there still has every committed record."""
    if len(isr) >= _min_isr(state, situation):
        return ()
    candidates = set(state.elr)
    if situation.eligible_leader_replicas:
        candidates.update(state.isr)
    return _in_order(state, candidates - set(isr) - {unclean})


def _elect(
    state: PartitionState, eligible: tuple[int, ...], situation: Situation, election: Election
) -> tuple[int, bool]:
    """The leader, and whether it may miss committed records. `eligible`: the ISR, or when that is empty the ELR."""
    valid = [r for r in state.replicas if r in eligible and r in situation.active]  # CT-7
    preferred = state.replicas[0]
    if election is Election.PREFERRED and preferred in valid:
        return preferred, False
    if state.leader in valid:
        return state.leader, False
    if valid:
        return valid[0], False
    last_known = state.last_known_leader
    if not eligible and last_known in state.replicas and last_known in situation.active:
        return last_known, True  # ISR-17: every copy stopped uncleanly; the last leader's is the best there is
    return NO_LEADER, False


def _min_isr(state: PartitionState, situation: Situation) -> int:
    return min(situation.min_insync_replicas, len(state.replicas))  # PR-2


def _in_order(state: PartitionState, brokers: Iterable[int]) -> tuple[int, ...]:
    """Sets of replicas are kept in preference order, so that equal sets are equal tuples."""
    members = frozenset(brokers)
    return tuple(r for r in state.replicas if r in members)
