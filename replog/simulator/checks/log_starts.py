"""INV-11: a log start hides only records that a client asked to delete, or that retention took."""

from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.history import History, Outcome

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
