"""With flush.messages=1 what is exposed is on the disks of all who are in sync, or one loss of power takes it (LG-18).

Such a loss would often go unseen: the others still have it, and where all lose their power the election that follows
excuses what is lost.
"""

from collections.abc import Callable
from pathlib import Path

from replog.simulator.checks.headers import headers_of
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.runtime.process import DEAD

Unsynced = Callable[[Path], int | None]
"""Where in a file the first byte lies that a loss of power may take; None: nowhere."""


def check_flushed(partition: PartitionLedger, leader: SeenReplica, exposed_before: int, unsynced: Unsynced) -> None:
    """The high watermark of the leader has just risen from `exposed_before`."""
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
