"""Checks the controller's records: who may lead and who is in sync (INV-2, INV-4, INV-20; INV-11 for elections)."""

from collections import Counter

from replog.controller.restoration import PARTITION_EPOCHS_AHEAD
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_BROKER_EPOCH, NO_LEADER, PartitionState
from replog.simulator.checks.commitment import lose_uncleanly
from replog.simulator.checks.partition_ledger import PartitionLedger


def follow_record(
    partition: PartitionLedger, new: PartitionState, image: MetadataImage, lost: Counter[int], *, asks_all: bool = False
) -> None:
    """Check one record of a partition against the one before it; a decision of the controller makes one at most.

    A record that was durable when the controller died is seen once the next one has loaded it. `lost`: how often each
    broker's disk lost something. `asks_all`: an election of a broker that may not have all records waits until all
    replicas have reported how far they go (CT-30).
    """
    old = partition.state
    partition.state = new
    _check_members(partition, new)
    if old is not None:
        _check_epochs(partition, old, new)
        _check_joiners(partition, old, new, image)
        partition.done["changes of the ISR"] += old.isr != new.isr
        partition.done["moves to other brokers"] += set(old.replicas) != set(new.replicas)
    if new.leader == NO_LEADER or (old is not None and old.leader_epoch == new.leader_epoch):
        return
    partition.recorded_leaders[new.leader_epoch] = new.leader
    partition.done["elections"] += old is not None
    acting = partition.leaders.get(new.leader_epoch)
    if acting is not None and acting[0] != new.leader:
        partition.fail("INV-3", f"broker {new.leader} is elected for epoch {new.leader_epoch}: {acting[0]} leads in it")
    joined = not new.recovering and old is not None and _was_proposed(partition, old, new.leader)
    if old is not None and new.leader not in old.isr and new.leader not in old.elr and not joined:
        if not new.recovering:
            partition.fail(
                "INV-11",
                f"broker {new.leader}, neither in the ISR {list(old.isr)} nor eligible {list(old.elr)}, is elected as "
                "if it were",
            )
        if asks_all:
            _check_furthest(partition, old, new.leader, lost)
        lose_uncleanly(partition, new.leader_epoch, partition.replicas.get(new.leader))
    partition.committed_at_election[new.leader_epoch] = partition.committed_end


def check_active(partition: PartitionLedger, image: MetadataImage, *, last_stays: bool = False) -> None:
    """CT-6: the commit that fences a broker, or lets it shut down, takes it out of every ISR and leadership.

    `last_stays`: the last broker in sync stays in the ISR without a leader, until it is back (ISR-19)."""
    state = partition.state
    if state is None or (last_stays and state.leader == NO_LEADER and len(state.isr) == 1):
        return
    for member in dict.fromkeys((*state.isr, *((state.leader,) if state.leader != NO_LEADER else ()))):
        broker = image.broker(member)
        if broker is None or not broker.active:
            partition.fail("CT-6", f"broker {member}, which is {broker}, is in the ISR or leads")


def _check_furthest(partition: PartitionLedger, old: PartitionState, elected: int, lost: Counter[int]) -> None:
    """INV-11: an election by evidence gives up what disks lost, but nothing that another replica still has.

    A replica whose disk failed, or lost something since, does not count: nobody knows what it has."""
    kept = partition.common_end(partition.replicas.get(elected))
    for other in old.replicas:
        replica = partition.replicas.get(other)
        if replica is None or replica.failed or replica.losses < lost[other]:
            continue
        if partition.common_end(replica) > kept:
            partition.fail(
                "INV-11",
                f"broker {elected} is elected for what replicas say of their logs; it has what was committed below "
                f"{kept}, and broker {other} has more",
            )


def _was_proposed(partition: PartitionLedger, old: PartitionState, member: int) -> bool:
    """Return True if the leader had `member` in its maximal ISR, and so committed nothing without it: the record that
    lets it join may end a reassignment, and elect it too (CT-14)."""
    leader = partition.replicas.get(old.leader)
    return leader is not None and leader.epoch == old.leader_epoch and member in leader.maximal_isr


def _check_members(partition: PartitionLedger, new: PartitionState) -> None:
    if new.leader != NO_LEADER and new.leader not in new.isr:
        partition.fail("INV-2", f"leader {new.leader} is not in the ISR {list(new.isr)}")
    if not set(new.isr) | set(new.elr) <= set(new.replicas):
        partition.fail("INV-1", f"ISR {list(new.isr)} and ELR {list(new.elr)} are not among {list(new.replicas)}")
    if new.throttle and not new.adding:
        partition.fail("CT-15", f"no move is under way, and its throttle of {new.throttle} is left")


def _check_epochs(partition: PartitionLedger, old: PartitionState, new: PartitionState) -> None:
    """INV-4, CT-9: each change takes the next partition epoch, and a change of leader the next leader epoch. A store
    that was restored from the brokers' disks begins far above all known epochs."""
    ahead = new.partition_epoch - old.partition_epoch > PARTITION_EPOCHS_AHEAD // 2
    if ahead and new.leader_epoch > old.leader_epoch and not new.isr:
        return
    if new.partition_epoch != old.partition_epoch + 1:
        partition.fail("INV-4", f"partition epoch {new.partition_epoch} follows on {old}")
    if new.leader_epoch not in (old.leader_epoch, old.leader_epoch + 1):
        partition.fail("INV-4", f"leader epoch {new.leader_epoch} follows on {old}")
    if new.leader != old.leader and new.leader_epoch == old.leader_epoch:
        partition.fail("INV-4", f"leader {new.leader} has the epoch {new.leader_epoch} of {old.leader}")


def _check_joiners(partition: PartitionLedger, old: PartitionState, new: PartitionState, image: MetadataImage) -> None:
    """INV-20: a broker that joins the ISR or begins to lead is active, and the incarnation that its leader saw fetch.

    An elected leader enters the ISR without a proposal."""
    joined = [member for member in new.isr if member not in old.isr]
    elected = [new.leader] if new.leader not in (old.leader, NO_LEADER) else []
    for member in dict.fromkeys([*joined, *elected]):
        broker = image.broker(member)
        if broker is None or not broker.active:
            partition.fail("INV-20", f"broker {member}, which is {broker}, joins the ISR or leads: before {old}")
        if member == new.leader:
            continue
        for replica in partition.replicas.values():
            proposal = getattr(replica.state, "proposal", None)
            if replica.broker_id != old.leader or replica.epoch != old.leader_epoch or proposal is None:
                continue
            fetched = dict(proposal.isr).get(member, NO_BROKER_EPOCH)
            if proposal.partition_epoch == old.partition_epoch and fetched not in (
                NO_BROKER_EPOCH,
                broker.broker_epoch,
            ):
                partition.fail(
                    "INV-20",
                    f"broker {member} joins the ISR for what it fetched in broker epoch {fetched}; it is registered "
                    f"with {broker.broker_epoch}",
                )
