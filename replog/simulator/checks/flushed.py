"""LG-18: with flush.messages=1, all replicas in sync have on disk what is exposed; otherwise a power loss takes it.

The other checks would often miss such a loss: other replicas still have the records, and if all lose power, the
election that follows excuses what is lost."""

from collections.abc import Callable
from pathlib import Path

from replog.simulator.checks.headers import headers_of
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.runtime.process import DEAD

Unsynced = Callable[[Path], int | None]
"""Returns the position in a file of the first byte that a power loss may take; None: there is none."""


def check_flushed(partition: PartitionLedger, leader: SeenReplica, exposed_before: int, unsynced: Unsynced) -> None:
    """Check what a leader exposed when its high watermark rose from `exposed_before`."""
    if leader.leader is None or leader.log.config.flush_messages != 1:
        return
    for member in leader.maximal_isr:
        replica = partition.replicas.get(member)
        if replica is None or replica.failed or replica.process.state is DEAD:
            continue
        for segment in replica.log.whole_segments:
            if segment.next_offset <= exposed_before or segment.base_offset >= leader.high_watermark:
                continue
            position = unsynced(segment.path)
            if position is None:
                continue
            for at, header in headers_of(segment):
                if exposed_before <= header.last_offset < leader.high_watermark and at + header.size > position:
                    partition.fail(
                        "LG-18",
                        f"leader {leader.broker_id} exposes up to {leader.high_watermark} with flush.messages=1, and "
                        f"broker {member} has not flushed {segment.path.name} from byte {position} on, where "
                        f"{header.base_offset}-{header.last_offset} are",
                    )
