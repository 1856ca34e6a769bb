"""Last stable offsets: what READ_COMMITTED may see never grows less while one leads, and is never undecided (PS-5)."""

from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica


def follow_stable(partition: PartitionLedger, replica: SeenReplica, *, leads_on: bool) -> None:
    """`leads_on`: it led before this step, and has led since without a break."""
    old, new = replica.stable, replica.log.last_stable_offset
    replica.stable = new
    if leads_on and new < old:
        partition.fail("PS-5", f"leader {replica.broker_id}'s last stable offset went back from {old} to {new}")
    if partition.transactional and new > (bound := _bound(partition, replica)):
        partition.fail("PS-5", f"broker {replica.broker_id}'s last stable offset is {new}; its batches say {bound}")


def _bound(partition: PartitionLedger, replica: SeenReplica) -> int:
    """The high watermark, or the first batch that can be read of a transaction that nothing in the log ends.

    A marker that is not replicated yet counts, too: a log that was opened again may not know that it is not, and
    a second write writes the same.
    """
    undecided: dict[int, int] = {}
    chain = replica.chain
    for batch in chain.batches[chain.slot_from(replica.start) :]:
        known = partition.transactional.get((batch.epoch, batch.base))
        if known is not None and known[1]:
            undecided.pop(known[0], None)
        elif known is not None:
            undecided.setdefault(known[0], batch.base)
    return max(replica.start, min([replica.log.high_watermark, *undecided.values()]))
