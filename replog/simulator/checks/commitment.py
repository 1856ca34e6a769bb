"""Checks how high watermarks, last stable offsets and log starts move, and that what is exposed stays (INV-9 to INV-11,
PS-5)."""

from replog.log.offsets import NO_EPOCH
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.history import History, Outcome


def follow_high_watermark(
    partition: PartitionLedger, replica: SeenReplica, *, leads_on: bool, led_in: int, first_seen: bool
) -> None:
    """Check how a step moved the high watermark. `leads_on`: the replica led before the step and throughout it.
    `led_in`: the epoch in which it led before the step or for a part of it, or NO_EPOCH.

    A step of a broker that was paused may apply many metadata records: one makes it the leader, and the next makes it
    a follower again."""
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
    """Take every record below a leader's high watermark as committed from now on, and check that none is lost (INV-11).

    If an unclean election followed the leader's epoch, only what that election kept counts: the rest is lost already.
    """
    high_watermark = replica.high_watermark
    partition.highest = max(partition.highest, high_watermark)
    partition.highest_of_epoch[epoch] = max(high_watermark, partition.highest_of_epoch.get(epoch, 0))
    end = partition.bounded(high_watermark, epoch)
    known = min(end, partition.committed_end)
    if partition.is_incomplete(replica, known, partition.committed):
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
    """INV-10: a follower's high watermark is not above what leaders ever had.

    If a leader `told` it, then not above what the leader of this epoch had, and the records below it are the committed
    ones, since consumers may read them here (FE-20). At a start it comes from the checkpoint, maybe of an older epoch.
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
    if partition.is_incomplete(replica, partition.bounded(high_watermark, epoch), partition.committed):
        partition.fail(
            "INV-10",
            f"follower {replica.broker_id}'s high watermark rose to {high_watermark}, where its log is another than "
            "what was committed",
        )


def take_leadership(partition: PartitionLedger, replica: SeenReplica) -> None:
    """INV-11: a new leader has all that was committed when it was elected.

    What others committed since does not count: a broker may take up its epoch late. After an unclean election only
    what the leader holds stays committed."""
    epoch = replica.epoch
    if epoch in partition.unclean:
        lose_uncleanly(partition, epoch, replica)
        return
    end = partition.bounded(partition.committed_at_election.get(epoch, 0), epoch)
    if partition.is_incomplete(replica, end, partition.committed):
        partition.fail(
            "INV-11",
            f"broker {replica.broker_id} begins to lead in epoch {epoch} without what was committed below {end} when "
            "it was elected",
        )


def lose_uncleanly(partition: PartitionLedger, epoch: int, leader: SeenReplica | None) -> None:
    """Follow an unclean election: committed records that the new leader does not have are given up (CT-8)."""
    kept = partition.common_end(leader)
    partition.unclean[epoch] = min(kept, partition.unclean.get(epoch, kept))
    if kept < partition.committed_end:
        partition.committed_end = kept
        partition.committed.cut(partition.committed.slot_from(kept))


def follow_stable(partition: PartitionLedger, replica: SeenReplica, *, leads_on: bool) -> None:
    """Check the last stable offset after a step. `leads_on`: the replica led before the step and throughout it."""
    old, new = replica.stable, replica.log.last_stable_offset
    replica.stable = new
    if leads_on and new < old:
        partition.fail("PS-5", f"leader {replica.broker_id}'s last stable offset went back from {old} to {new}")
    if partition.transactional and new > (bound := _bound(partition, replica)):
        partition.fail("PS-5", f"broker {replica.broker_id}'s last stable offset is {new}; its batches say {bound}")


def _bound(partition: PartitionLedger, replica: SeenReplica) -> int:
    """Return the first offset of a transaction that no marker in the log ends, or the high watermark if that is lower.

    A marker above the high watermark ends one too: a log that was opened again may not know that it lies above, and
    the same marker may be written twice."""
    undecided: dict[int, int] = {}
    chain = replica.chain
    for batch in chain.batches[chain.slot_from(replica.start) :]:
        known = partition.transactional.get((batch.epoch, batch.base))
        if known is not None and known[1]:
            undecided.pop(known[0], None)
        elif known is not None:
            undecided.setdefault(known[0], batch.base)
    return max(replica.start, min([replica.log.high_watermark, *undecided.values()]))


ALL_COMMITTED = -1  # the offset of a DeleteRecords that means the leader's high watermark


def check_log_start(partition: PartitionLedger, replica: SeenReplica, history: History) -> None:
    """Check that a log start above all others is one that a leader was asked for; followers take it over.

    A request may come late and more than once: one for all that is committed means the high watermark of that moment,
    which the history notes. `replica` is as before the step; if its log failed in it, the start may still be written.
    """
    log, tp = replica.log, partition.topic_partition
    start, highest = log.log_start_offset, partition.highest_start
    if replica.end < start:
        history.passed_over[tp] = max(start, history.passed_over.get(tp, 0))
    if start <= highest:
        return
    asked = {d.offset for d in history.deletions if d.partition == tp and d.outcome is not Outcome.FAILED}
    led = replica.leader is not None or replica.hosted.leader is not None
    if led and start in asked:
        pass
    elif led and ALL_COMMITTED in asked and start in (replica.high_watermark, log.high_watermark):
        history.committed_deleted[tp] = start
    elif tp.topic not in history.retained or start != log.bases[0]:
        partition.fail(
            "INV-11",
            f"broker {replica.broker_id}'s log starts at {start}, and no log did behind {highest}; it "
            f"{'leads' if led else 'does not lead'}, and deletions were asked for up to {sorted(asked)}",
        )
    partition.highest_start = start
