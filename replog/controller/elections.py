"""Elections, and how each event changes a partition's record (§9.2, §6.5). Pure functions, state in, state out.

Each returns the very same state if nothing changes. Otherwise the partition epoch is higher by one (INV-4)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, StrEnum

from replog.metadata.values import NO_LEADER, PartitionState


class Election(Enum):
    """The kind of an election (CT-8). An UNCLEAN one, which is held on request, may lose committed records."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class Leaves(IntEnum):
    """The condition of a replica that leaves an ISR, the worst last."""

    WHOLE = 0  # its broker was fenced, or stopped in order
    UNCLEANLY = 1  # it may have lost records that had reached no disk (ISR-18)
    OFFLINE = 2  # its broker cannot read it, perhaps for a while only (CT-27)
    EMPTY = 3  # its records are gone (CT-29)


class Strategy(StrEnum):
    """unclean.recovery.strategy (CT-31, KIP-966): what to do if no live replica is known to be complete."""

    NONE = "NONE"
    BALANCED = "BALANCED"
    AGGRESSIVE = "AGGRESSIVE"


@dataclass(frozen=True, slots=True)
class Situation:
    """The inputs of an election, apart from the partition's own state."""

    active: frozenset[int]  # brokers that may lead: unfenced and not shutting down (CT-7)
    min_insync_replicas: int
    eligible_leader_replicas: bool = True  # ISR-15..ISR-17; without, ISR-19
    strategy: Strategy = Strategy.BALANCED


def change_isr(
    state: PartitionState, isr: Iterable[int], situation: Situation, *, recovering: bool | None = None
) -> PartitionState:
    """Return the state with this ISR, and with the recovery state `recovering` if it is given."""
    wanted = replace(state, isr=tuple(isr), recovering=state.recovering if recovering is None else recovering)
    return settle(state, wanted, situation)


def remove_from_isr(
    state: PartitionState, broker_id: int, situation: Situation, how: Leaves = Leaves.WHOLE
) -> PartitionState:
    """Unless the replica is WHOLE it leaves the ELR too (ISR-18). If it is EMPTY it is remembered nowhere (CT-29)."""
    trusted = (*state.isr, state.leader, *(state.elr if how >= Leaves.UNCLEANLY else ()))
    remembered = (*state.last_known_elr, state.last_known_leader) if how is Leaves.EMPTY else ()
    if broker_id not in (*trusted, *remembered):
        return state
    wanted = replace(state, isr=tuple(r for r in state.isr if r != broker_id))
    return settle(state, wanted, situation, lost=broker_id if how >= Leaves.UNCLEANLY else None, how=how)


def elect(
    state: PartitionState, situation: Situation, election: Election = Election.ONLINE, by_evidence: int = NO_LEADER
) -> PartitionState:
    """Hold an election with the ISR as it is. `by_evidence` leads if no replica known to be complete can."""
    return settle(state, state, situation, election, by_evidence)


def settle(
    old: PartitionState,
    wanted: PartitionState,
    situation: Situation,
    election: Election = Election.ONLINE,
    by_evidence: int = NO_LEADER,
    *,
    lost: int | None = None,
    how: Leaves = Leaves.WHOLE,
) -> PartitionState:
    """Return the state after an event that asks for another ISR, recovery state or assignment than `old` has.

    A reassignment whose target is in sync completes (CT-15). The ELR is kept (ISR-15), except `lost`, a replica that
    has just left and is not WHOLE (ISR-18). A leader is elected if needed (ISR-17). Epochs are raised (CT-9)."""
    new = _completed(wanted)
    empty = lost if how is Leaves.EMPTY else None
    unreadable = lost if how >= Leaves.OFFLINE else None
    isr = in_order(new.replicas, new.isr)
    if not isr and not situation.eligible_leader_replicas:
        isr = in_order(new.replicas, {*old.isr} - {unreadable})  # ISR-19
    minimum = min(situation.min_insync_replicas, len(new.replicas))  # PR-2
    elr, last_known_elr = tuple[int, ...](), tuple[int, ...]()
    if len(isr) < minimum:  # ISR-15: nothing commits now, so a replica that leaves has every committed record
        candidates = {*old.elr, *(old.isr if situation.eligible_leader_replicas else ())}
        elr = in_order(new.replicas, candidates - set(isr) - {lost})
        had_all = {*old.last_known_elr, *(r for r in (*old.isr, *old.elr) if r == lost)}
        last_known_elr = in_order(new.replicas, had_all - {*isr, *elr, empty})
    leader, is_unclean = _elect(replace(new, isr=isr, elr=elr), situation, election, by_evidence)
    if is_unclean:
        isr, elr, last_known_elr = (leader,), (), ()
    elif leader != NO_LEADER and leader not in isr:  # the ELR had it
        isr, elr = (leader,), tuple(r for r in elr if r != leader) if minimum > 1 else ()
    last_known_elr = last_known_elr if len(isr) < minimum else ()
    last_known = old.leader if old.leader != NO_LEADER else old.last_known_leader
    if last_known == unreadable:
        last_known = NO_LEADER
    elif last_known not in new.replicas and how is Leaves.UNCLEANLY and lost in (*old.isr, *old.elr):
        last_known = lost  # a reassignment removed the last leader; this one had the same records
    new = replace(
        new,
        isr=isr,
        elr=elr,
        last_known_elr=last_known_elr,
        leader=leader,
        last_known_leader=last_known if leader == NO_LEADER and last_known in new.replicas else NO_LEADER,
        recovering=new.recovering or is_unclean,
    )
    new = _completed(new)  # an election can leave an ISR that is the whole target
    if new == old:
        return old
    sets_leader = new.leader != old.leader or not set(old.replicas) <= set(new.replicas)
    return replace(new, leader_epoch=old.leader_epoch + sets_leader, partition_epoch=old.partition_epoch + 1)


def was_unclean(old: PartitionState, new: PartitionState) -> bool:
    """Return True if the leader of `new` may miss records that were committed in `old`."""
    return new.recovering and new.leader not in (NO_LEADER, *old.isr, *old.elr)


def _completed(state: PartitionState) -> PartitionState:
    """Completes a reassignment once all replicas that stay are in sync (CT-15). Then there is no ELR (ISR-15)."""
    isr = tuple(r for r in state.isr if r not in state.removing)
    target = tuple(r for r in state.replicas if r not in state.removing)
    if not state.reassigning or not isr or not set(isr) >= set(target):
        return state
    return replace(state, replicas=target, isr=isr, elr=(), last_known_elr=(), adding=(), removing=(), throttle=0)


def _elect(state: PartitionState, situation: Situation, election: Election, by_evidence: int) -> tuple[int, bool]:
    """Return the leader, and whether it may miss committed records."""
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
    """Return `brokers` in preference order. So equal sets are equal tuples."""
    members = frozenset(brokers)
    return tuple(r for r in replicas if r in members)
