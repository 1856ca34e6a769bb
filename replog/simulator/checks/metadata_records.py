"""The controller's records: who may lead and who is in sync (INV-2, INV-4, INV-20; INV-11 for elections)."""

from replog.controller.restoration import PARTITION_EPOCHS_AHEAD
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_BROKER_EPOCH, NO_LEADER, PartitionState
from replog.simulator.checks.commitment import lose_uncleanly
from replog.simulator.checks.partition_ledger import PartitionLedger


def follow_record(
    partition: PartitionLedger, new: PartitionState, image: MetadataImage, *, asks_all: bool = False
) -> None:
    """One record after the other: the controller makes one decision at a time, and each has one record of a partition.

    One that was durable when the controller died is seen when the next controller has loaded it. `asks_all`: before it
    elects somebody who may lack records, all replicas have said how far they go (CT-30).
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
            _check_furthest(partition, old, new.leader)
        lose_uncleanly(partition, new.leader_epoch, partition.replicas.get(new.leader))
    partition.committed_at_election[new.leader_epoch] = partition.committed_end


def check_active(partition: PartitionLedger, image: MetadataImage, *, last_stays: bool = False) -> None:
    """CT-6: a broker that is fenced, or shuts down, is out of every ISR and leads nothing in the same commit.

    `last_stays`: the last one in sync stays in the ISR, and is waited for (ISR-19).
    """
    state = partition.state
    if state is None or (last_stays and state.leader == NO_LEADER and len(state.isr) == 1):
        return
    for member in dict.fromkeys((*state.isr, *((state.leader,) if state.leader != NO_LEADER else ()))):
        broker = image.broker(member)
        if broker is None or not broker.active:
            partition.fail("CT-6", f"broker {member}, which is {broker}, is in the ISR or leads")


def _check_furthest(partition: PartitionLedger, old: PartitionState, elected: int) -> None:
    """INV-11: an election by evidence forgives what disks lost, and nothing that another replica still has.

    Of a disk that failed nobody knows what it has.
    """
    kept = partition.common_end(partition.replicas.get(elected))
    for other in old.replicas:
        replica = partition.replicas.get(other)
        if replica is not None and not replica.failed and partition.common_end(replica) > kept:
            partition.fail(
                "INV-11",
                f"broker {elected} is elected for what replicas say of their logs; it has what was committed below "
                f"{kept}, and broker {other} has more",
            )


def _was_proposed(partition: PartitionLedger, old: PartitionState, member: int) -> bool:
    """Whether the leader had it in its maximal ISR, and so committed nothing without it: the record that lets it join
    may end a reassignment, and elect it too (CT-14)."""
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
    """INV-4, with CT-9: a new leader, or none, is a new leader epoch, the next one. Far above all that is known are the
    epochs of a store that was restored from the brokers' disks."""
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
    """INV-20: a broker that joins the ISR, or begins to lead, is active, and is the process that its leader saw fetch.

    An elected leader enters the ISR by itself; everybody else was proposed.
    """
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
