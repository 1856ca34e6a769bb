"""PS-5: a leader's last stable offset never falls, and no undecided transaction lies below it."""

from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica


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
