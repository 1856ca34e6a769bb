"""A replica whose log was swapped for its copy in another log directory (7.7)."""

from cluster.simulation.checks.log_checks import follow_log
from cluster.simulation.checks.partition import Partition
from cluster.simulation.checks.replica import Replica
from replog.log.log import Log


def follow_move(partition: Partition, replica: Replica) -> None:
    """Look at the new log from now on, which is what the old one was: its bounds, epochs and batches."""
    old, new = replica.log, replica.hosted.log
    if _told(old) != _told(new):
        partition.fail("7.7", f"broker {replica.broker_id} had {_told(old)}, and after its move has {_told(new)}")
    before = replica.chain.batches[replica.chain.slot_from(new.log_start_offset) :]
    replica.take_log(new)
    follow_log(partition, replica)
    after = replica.chain.batches[replica.chain.slot_from(new.log_start_offset) :]
    if before != after:
        partition.fail("7.7", f"broker {replica.broker_id} had batches {before}, and after its move has {after}")


def _told(log: Log) -> str:
    return (
        f"start {log.log_start_offset}, LSO {log.last_stable_offset}, HW {log.high_watermark}, "
        f"end {log.log_end_offset}, epochs {log.epochs.entries}"
    )
