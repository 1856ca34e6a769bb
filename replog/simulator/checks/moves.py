"""Checks a replica whose log was swapped for its copy in another log directory (7.7)."""

from replog.log.log import Log
from replog.simulator.checks.log_checks import follow_log
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica


def follow_move(partition: PartitionLedger, replica: SeenReplica) -> None:
    """Check that the new log has the old one's bounds, epochs and batches, and follow it from now on. A leader's high
    watermark and last stable offset may rise: the copy is flushed, and the old log may have waited for that (LG-18)."""
    old, new = replica.log, replica.hosted.log
    partition.done["moves between directories"] += 1
    leads = replica.hosted.leader is not None
    rose = leads and new.high_watermark > old.high_watermark and new.last_stable_offset >= old.last_stable_offset
    if _log(old) != _log(new) or not (rose or _bounds(old) == _bounds(new)):
        partition.fail("7.7", f"broker {replica.broker_id} had {_told(old)}, and after its move has {_told(new)}")
    before = replica.chain.batches[replica.chain.slot_from(new.log_start_offset) :]
    replica.take_log(new)
    follow_log(partition, replica)
    after = replica.chain.batches[replica.chain.slot_from(new.log_start_offset) :]
    if before != after:
        partition.fail("7.7", f"broker {replica.broker_id} had batches {before}, and after its move has {after}")


def _log(log: Log) -> object:
    return log.log_start_offset, log.log_end_offset, log.epochs.entries


def _bounds(log: Log) -> object:
    return log.last_stable_offset, log.high_watermark


def _told(log: Log) -> str:
    return (
        f"start {log.log_start_offset}, LSO {log.last_stable_offset}, HW {log.high_watermark}, "
        f"end {log.log_end_offset}, epochs {log.epochs.entries}"
    )
