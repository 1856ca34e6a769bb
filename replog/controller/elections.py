"""Who leads a partition, and how each event changes its record (§9.2, §6.5). Pure functions, state in, state out.

Each returns the very same state if nothing changes. Otherwise the partition epoch is higher by one (INV-4).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from replog.metadata.values import NO_LEADER, PartitionState


class Election(Enum):
    """CT-8. An UNCLEAN election, which is held on request, may lose committed records."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class Strategy(StrEnum):
    """CT-31, unclean.recovery.strategy (KIP-966): what to do where nobody that is alive is known to have everything."""

    NONE = "NONE"
    BALANCED = "BALANCED"
    AGGRESSIVE = "AGGRESSIVE"


@dataclass(frozen=True, slots=True)
class Situation:
    """What an election must know, apart from the partition's own state."""

    active: frozenset[int]  # brokers that may lead: unfenced and not shutting down (CT-7)
    min_insync_replicas: int
    eligible_leader_replicas: bool = True  # ISR-15..ISR-17; without, ISR-19
    strategy: Strategy = Strategy.BALANCED


def change_isr(
    state: PartitionState,
    isr: Iterable[int],
    situation: Situation,
    *,
    recovering: bool | None = None,
) -> PartitionState:
    """The state with this ISR, and with the recovery state `recovering` if it is given."""
    wanted = replace(state, isr=tuple(isr), recovering=state.recovering if recovering is None else recovering)
    return settle(state, wanted, situation)


def remove_from_isr(
    state: PartitionState, broker_id: int, situation: Situation, *, unclean: bool = False, gone: bool = False
) -> PartitionState:
    """`broker_id` was fenced, is shutting down, or restarted. After an unclean stop it leaves the ELR too (ISR-18), and
    if its records are `gone` it stays nowhere (CT-27, CT-29)."""
    trusted = (*state.isr, state.leader, *(state.elr if unclean or gone else ()))
    remembered = (*state.last_known_elr, state.last_known_leader) if gone else ()
    if broker_id not in (*trusted, *remembered):
        return state
    wanted = replace(state, isr=tuple(r for r in state.isr if r != broker_id))
    return settle(state, wanted, situation, unclean_stop=broker_id if unclean or gone else None, gone=gone)


def elect(
    state: PartitionState,
    situation: Situation,
    election: Election = Election.ONLINE,
    by_evidence: int = NO_LEADER,
) -> PartitionState:
    """Hold an election with the ISR as it is. `by_evidence`: who leads if nobody can who is known to be complete."""
    return settle(state, state, situation, election, by_evidence)


def settle(
    old: PartitionState,
    wanted: PartitionState,
    situation: Situation,
    election: Election = Election.ONLINE,
    by_evidence: int = NO_LEADER,
    *,
    unclean_stop: int | None = None,
    gone: bool = False,
) -> PartitionState:
    """The state after an event that asks for another ISR, recovery state or assignment than `old` has.

    A reassignment whose target is in sync completes (CT-15). The ELR is kept (ISR-15), except `unclean_stop`, a replica
    that has just stopped uncleanly (ISR-18), and whose records are perhaps `gone`. A leader is elected if needed
    (ISR-17). Epochs are raised (CT-9).
    """
    new = _completed(wanted)
    empty = unclean_stop if gone else None
    isr = in_order(new.replicas, new.isr)
    if not isr and not situation.eligible_leader_replicas:
        isr = in_order(new.replicas, {*old.isr} - {empty})  # ISR-19
    minimum = min(situation.min_insync_replicas, len(new.replicas))  # PR-2
    elr, last_known_elr = tuple[int, ...](), tuple[int, ...]()
    if len(isr) < minimum:  # ISR-15: nothing commits now, so a replica that leaves has every committed record
        candidates = {*old.elr, *(old.isr if situation.eligible_leader_replicas else ())}
        elr = in_order(new.replicas, candidates - set(isr) - {unclean_stop})
        had_all = {*old.last_known_elr, *(r for r in (*old.isr, *old.elr) if r == unclean_stop)}
        last_known_elr = in_order(new.replicas, had_all - {*isr, *elr, empty})
    leader, is_unclean = _elect(replace(new, isr=isr, elr=elr), situation, election, by_evidence)
    if is_unclean:
        isr, elr, last_known_elr = (leader,), (), ()
    elif leader != NO_LEADER and leader not in isr:  # from the ELR
        isr, elr = (leader,), tuple(r for r in elr if r != leader) if minimum > 1 else ()
    last_known_elr = last_known_elr if len(isr) < minimum else ()
    last_known = old.leader if old.leader != NO_LEADER else old.last_known_leader
    if last_known == empty:
        last_known = NO_LEADER
    elif last_known not in new.replicas and unclean_stop is not None and unclean_stop in (*old.isr, *old.elr):
        last_known = unclean_stop  # a reassignment removed the last leader; this one had the same records
    new = replace(
        new,
        isr=isr,
        elr=elr,
        last_known_elr=last_known_elr,
        leader=leader,
        last_known_leader=last_known if leader == NO_LEADER and last_known in new.replicas else NO_LEADER,
        recovering=new.recovering or is_unclean,
    )
    new = _completed(new)  # an election, too, can leave an ISR that is the whole target
    if new == old:
        return old
    sets_leader = new.leader != old.leader or not set(old.replicas) <= set(new.replicas)
    return replace(new, leader_epoch=old.leader_epoch + sets_leader, partition_epoch=old.partition_epoch + 1)


def was_unclean(old: PartitionState, new: PartitionState) -> bool:
    """Whether `new` has a leader that may miss records which were committed in `old`."""
    return new.recovering and new.leader not in (NO_LEADER, *old.isr, *old.elr)


def _completed(state: PartitionState) -> PartitionState:
    """CT-15: once all replicas that stay are in sync, the others leave. Then there is no ELR either (ISR-15)."""
    isr = tuple(r for r in state.isr if r not in state.removing)
    target = tuple(r for r in state.replicas if r not in state.removing)
    if not state.reassigning or not isr or not set(isr) >= set(target):
        return state
    return replace(state, replicas=target, isr=isr, elr=(), last_known_elr=(), adding=(), removing=(), throttle=0)


def _elect(state: PartitionState, situation: Situation, election: Election, by_evidence: int) -> tuple[int, bool]:
    """The leader, and whether it may miss committed records."""
    eligible = state.isr or state.elr
    valid = [r for r in state.replicas if r in eligible and r in situation.active]  # CT-7
    preferred = state.replicas[0]
    if election is Election.PREFERRED and preferred in valid:
        return preferred, False
    if state.leader in valid:
        return state.leader, False
    if valid:
        return valid[0], False
    if by_evidence in state.replicas and by_evidence in situation.active:
        return by_evidence, True  # CT-30
    return NO_LEADER, False


def in_order(replicas: tuple[int, ...], brokers: Iterable[int]) -> tuple[int, ...]:
    """Sets of replicas are kept in preference order, so that equal sets are equal tuples."""
    members = frozenset(brokers)
    return tuple(r for r in replicas if r in members)
