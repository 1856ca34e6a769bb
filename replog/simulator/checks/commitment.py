"""High watermarks: how they move, and that what they expose is never lost (INV-9 to INV-11)."""

from replog.log.offsets import NO_EPOCH
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica


def follow_high_watermark(
    partition: PartitionLedger, replica: SeenReplica, *, leads_on: bool, led_in: int, first_seen: bool
) -> None:
    """`leads_on`: it led before this step, and has led since without a break. `led_in`: the epoch in which it led
    before this step, or for a part of it, or NO_EPOCH.

    One step of a broker that was paused may bring it many records: one that raises its high watermark as a leader, or
    makes it one, and the next that makes it a follower.
    """
    old, new = replica.high_watermark, replica.log.high_watermark
    replica.high_watermark = new
    if leads_on and new < old:
        partition.fail("INV-9", f"leader {replica.broker_id}'s high watermark went back from {old} to {new}")
    if replica.leader is not None:
        _expose(partition, replica, replica.epoch)
    elif new > old and led_in != NO_EPOCH:
        _expose(partition, replica, led_in)
    elif new > old:
        _check_follower(partition, replica, told=not first_seen)


def _expose(partition: PartitionLedger, replica: SeenReplica, epoch: int) -> None:
    """A leader's high watermark: from now on every record below it is committed.

    What a leader exposes of an epoch older than an unclean election counts only as far as that election kept it: the
    records behind that are lost already, whether they were acknowledged or not.
    """
    high_watermark = replica.high_watermark
    partition.highest = max(partition.highest, high_watermark)
    partition.highest_of_epoch[epoch] = max(high_watermark, partition.highest_of_epoch.get(epoch, 0))
    end = partition.bounded(high_watermark, epoch)
    known = min(end, partition.committed_end)
    if partition.lacks(replica, known, partition.committed):
        partition.fail(
            "INV-11",
            f"leader {replica.broker_id} of epoch {epoch} exposes up to {high_watermark}, where its log is another "
            f"than what was committed below {known}",
        )
    if end <= partition.committed_end:
        return
    if not replica.compacted:
        committed, chain = partition.committed, replica.chain
        for batch in chain.batches[chain.slot_from(partition.committed_end) : chain.slot_from(end - 1) + 1]:
            if batch is not committed.last:
                committed.append(batch)
    partition.committed_end = end


def _check_follower(partition: PartitionLedger, replica: SeenReplica, *, told: bool) -> None:
    """INV-10: no more than a leader ever had. If a leader `told` it, no more than that of this epoch ever had, and
    below it the very records that are committed: consumers may read them here (FE-20).

    When a broker starts, its high watermark is that of its checkpoint, and may be of an older epoch.
    """
    high_watermark, epoch = replica.high_watermark, replica.epoch
    if high_watermark > partition.highest:
        partition.fail(
            "INV-10",
            f"follower {replica.broker_id}'s high watermark is {high_watermark}, and no leader ever had more than "
            f"{partition.highest}",
        )
    if not told:
        return
    of_epoch = partition.highest_of_epoch.get(epoch, 0)
    if high_watermark > of_epoch:
        partition.fail(
            "INV-10",
            f"follower {replica.broker_id}'s high watermark rose to {high_watermark} in epoch {epoch}, whose leader "
            f"had {of_epoch} at most",
        )
    if partition.lacks(replica, partition.bounded(high_watermark, epoch), partition.committed):
        partition.fail(
            "INV-10",
            f"follower {replica.broker_id}'s high watermark rose to {high_watermark}, where its log is another than "
            "what was committed",
        )


def take_leadership(partition: PartitionLedger, replica: SeenReplica) -> None:
    """INV-11: a new leader has all that was committed when it was elected.

    Not later: a broker may take up an epoch after others have led since. After an unclean election it keeps what it
    has, and that much stays committed.
    """
    epoch = replica.epoch
    if epoch in partition.unclean:
        lose_uncleanly(partition, epoch, replica)
        return
    end = partition.bounded(partition.committed_at_election.get(epoch, 0), epoch)
    if partition.lacks(replica, end, partition.committed):
        partition.fail(
            "INV-11",
            f"broker {replica.broker_id} begins to lead in epoch {epoch} without what was committed below {end} when "
            "it was elected",
        )


def lose_uncleanly(partition: PartitionLedger, epoch: int, leader: SeenReplica | None) -> None:
    """An unclean election: of what was committed, what the new leader lacks is given up, knowingly (CT-8)."""
    kept = partition.common_end(leader)
    partition.unclean[epoch] = min(kept, partition.unclean.get(epoch, kept))
    if kept < partition.committed_end:
        partition.committed_end = kept
        partition.committed.cut(partition.committed.slot_from(kept))
