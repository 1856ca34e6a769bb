"""Checks that in-sync replicas and eligible leaders hold all that is committed (INV-5 to INV-8, INV-11, INV-22)."""

from replog.metadata.values import PartitionState
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica


def check_in_sync(partition: PartitionLedger) -> None:
    """Check the controller's ISR and ELR, and each leader's own view of the ISR.

    A pair of logs costs two look-ups, since two logs that share a batch are the same up to there. A dead broker counts
    with what it held before any power loss: the controller takes it out of ISR and ELR before it hosts again (ISR-18).
    """
    if partition.deleted:
        return
    leaders = [replica for replica in partition.replicas.values() if replica.presumes_to_lead]
    _check_recorded(partition, leaders)
    for leader in leaders:
        _check_own_view(partition, leader)


def check_somebody_has_all(partition: PartitionLedger) -> None:
    """INV-11: if nobody is in sync or eligible, one replica, dead or alive, still has all that was committed."""
    state, end = partition.state, partition.committed_end
    if state is None or partition.deleted or state.isr or state.elr:
        return
    if all(
        partition.is_incomplete(partition.replicas.get(member), end, partition.committed) for member in state.replicas
    ):
        partition.fail("INV-11", f"no replica has all that was committed below {end}")


def _check_recorded(partition: PartitionLedger, leaders: list[SeenReplica]) -> None:
    """Check that each member of the controller's ISR and ELR holds all that was ever committed.

    That covers INV-8 and INV-6 for each leader, also a deposed one, INV-22 for each exposed high watermark, and INV-11
    for the next leader, whichever it is."""
    state = partition.state
    if state is None:
        return
    end, committed = partition.committed_end, partition.committed
    for member in state.isr:
        replica = partition.replicas.get(member)
        if partition.is_incomplete(replica, end, committed):
            _fail_member(partition, member, leaders)
    for member in state.elr:
        if partition.is_incomplete(partition.replicas.get(member), end, committed):
            partition.fail("INV-22", f"eligible leader {member} lacks a record below {end}, which was exposed")
    for leader in leaders:
        if leader.epoch == state.leader_epoch and not leader.maximal_isr.issuperset(state.isr):
            partition.fail(
                "INV-7",
                f"leader {leader.broker_id} of epoch {leader.epoch} thinks that {sorted(leader.maximal_isr)} may be "
                f"in sync, and the controller has {sorted(state.isr)}",
            )


def _fail_member(partition: PartitionLedger, member: int, leaders: list[SeenReplica]) -> None:
    """Raise Violation for a member of the ISR, under the narrowest rule that it breaks."""
    state, replica = partition.state, partition.replicas.get(member)
    for leader in leaders:
        exposed = partition.bounded(leader.high_watermark, leader.epoch)
        if not partition.is_incomplete(replica, exposed, leader.chain):
            continue
        short = state is not None and leader.epoch == state.leader_epoch
        partition.fail(
            "INV-8" if short and (replica is None or replica.end < exposed) else "INV-6",
            f"broker {member}, in the controller's ISR, lacks a record below the high watermark {exposed} of leader "
            f"{leader.broker_id} in epoch {leader.epoch}",
        )
    partition.fail(
        "INV-11",
        f"broker {member}, in the controller's ISR, lacks a record below {partition.committed_end}, which a leader "
        "has exposed",
    )


def _check_own_view(partition: PartitionLedger, leader: SeenReplica) -> None:
    """INV-5: a replica that a presumed leader believes in sync agrees with it below its high watermark.

    Members of the controller's ISR are checked elsewhere. Of the others, one whose disk lost something needs only what
    is left, until it has copied that much again. One that left the assignment is not checked, since it deletes its log.
    """
    state = partition.state
    recorded = state.isr if state is not None else ()
    high_watermark = partition.bounded(leader.high_watermark, leader.epoch)
    for member in leader.maximal_isr:
        if (
            member == leader.broker_id
            or member in recorded
            or (state is not None and _was_removed(state, member, leader))
        ):
            continue
        replica, end = partition.replicas.get(member), high_watermark
        if replica is not None and replica.lost_below > replica.end:
            end = min(end, replica.end)
        if end > leader.start and partition.is_incomplete(replica, end, leader.chain):
            partition.fail(
                "INV-5",
                f"broker {member}, in the ISR as leader {leader.broker_id} of epoch {leader.epoch} knows it, lacks a "
                f"record below the leader's high watermark {high_watermark}, or has another",
            )


def _was_removed(state: PartitionState, member: int, leader: SeenReplica) -> bool:
    """Return True if the member left the assignment since the leader's view, even if it is being added again (CT-9)."""
    return member not in state.replicas or (member in state.adding and leader.epoch < state.leader_epoch)
