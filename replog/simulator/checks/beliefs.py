"""Checks that what a leader believes of its followers is true, and that it exposes no more than that.

INV-5 to INV-8 rest on these rules. A breach shows here at once; its effects show only when the wrong broker dies at
the wrong time."""

from collections.abc import Callable
from pathlib import Path

from leader.isr import Pending
from replog.simulator.checks.chain import headers_of
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.runtime.process import DEAD


def check_beliefs(partition: PartitionLedger, leader: SeenReplica) -> None:
    """ST-7: up to the offset of its last fetch, a follower holds what the leader holds.

    This covers only followers in the leader's epoch and in the incarnation that fetched: in a later epoch a follower
    may have truncated what this leader did not commit, and another incarnation may have another disk. Within an epoch
    an accepted follower only appends."""
    role = leader.leader
    if role is None or leader.compacted or leader.failed:
        return
    for follower_id, known in role.replicas.items():
        replica = partition.replicas.get(follower_id)
        if (
            replica is not None
            and not replica.failed
            and replica.leader is None
            and replica.epoch == leader.epoch
            and replica.broker_epoch == known.broker_epoch
            and known.log_end_offset > leader.start  # below it the leader has nothing to compare with
            and partition.is_incomplete(replica, known.log_end_offset, leader.chain)
        ):
            partition.fail(
                "ST-7",
                f"leader {leader.broker_id} takes broker {follower_id}, in its epoch {leader.epoch}, to hold its log "
                f"up to {known.log_end_offset}",
            )


def check_exposure(partition: PartitionLedger, leader: SeenReplica) -> None:
    """Check a high watermark that rose: enough replicas are in sync (HW-2), and all that may be hold it (HW-3)."""
    role = leader.leader
    assert role is not None
    needed = min(role.log.config.min_insync_replicas, len(role.replicas) + 1)  # PR-2
    if len(role.state.isr) < needed:
        partition.fail(
            "HW-2",
            f"leader {leader.broker_id} exposes up to {leader.high_watermark} with {sorted(role.state.isr)} in sync; "
            f"{needed} have to be",
        )
    for member in leader.maximal_isr:
        known = role.replicas.get(member)
        if known is not None and known.log_end_offset < leader.high_watermark:
            partition.fail(
                "HW-3",
                f"leader {leader.broker_id} exposes up to {leader.high_watermark}, and it knows broker {member}, which "
                f"may be in sync, to hold {known.log_end_offset}",
            )


def check_expansion(partition: PartitionLedger, leader: SeenReplica) -> None:
    """ISR-3: a proposed replica holds all that is exposed, and all that the leader began its epoch with."""
    role = leader.leader
    if role is None or not isinstance(role.state, Pending):
        return
    needed = max(leader.high_watermark, role.leader_epoch_start_offset)
    for joining in role.state.joining:
        known = role.replicas.get(joining)
        if known is None or known.log_end_offset < needed:
            partition.fail(
                "ISR-3",
                f"leader {leader.broker_id} proposes broker {joining} for the ISR, which it knows to hold "
                f"{known and known.log_end_offset}; it needs {needed}, with the epoch's start at "
                f"{role.leader_epoch_start_offset}",
            )


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
        for segment in replica.log.segments:
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
