"""Log starts: no record is hidden that nobody asked to delete, and that retention has not taken (INV-11)."""

from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.history import History, Outcome

ALL_COMMITTED = -1  # the offset of a DeleteRecords that means the leader's high watermark


def check_log_start(partition: PartitionLedger, replica: SeenReplica, history: History) -> None:
    """A log start that no replica had before is that of a leader that was asked for it; the others take it over.

    A request may come late, and more than once; to delete all that is committed then means the high watermark of each
    time, and the history is told. `replica` is as it was before the step; its log may have failed in it, and what it
    was about to do may still get to the disk.
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
