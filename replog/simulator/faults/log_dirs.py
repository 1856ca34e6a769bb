"""Replicas move between their broker's log directories, while the broker may die."""

import asyncio
from pathlib import Path

from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.nemesis import Nemesis, NotNow, deed
from replog.simulator.profiles import FaultKind
from replog.topic import TopicPartition


@deed(FaultKind.MOVE_LOG_DIR)
async def move_log_dir(n: Nemesis, kind: FaultKind) -> None:
    """Move a broker's replicas, each to another of its directories, or sometimes to its own, which cancels a move.

    Two times in three the broker dies meanwhile: at one of its next changes of files, or by a power loss."""
    if len(n.cluster.plan.disks) < 2:
        raise NotNow
    member = n.running_broker()
    moves = {tp: str(_target(n, member, tp)) for tp in n.workload.partitions}
    n.begin(kind, broker=member.name, moves={str(tp): to for tp, to in moves.items()})
    process, fate = member.process, n.rng.random()
    if fate < 0.35:
        n.kernel.disk.kill_at(process, n.rng.randint(1, n.rng.choice((20, 60, 150))))
    await n.workload.administer_once(
        "move between log directories", lambda admin: admin.alter_replica_log_dirs(member.broker_id, moves)
    )
    if fate > 0.65:
        await asyncio.sleep(n.rng.random() * n.rng.choice((0.01, 0.1)))
        if member.process is process and n.cluster.may_lose_power(member):
            n.cluster.lose_power(member)


def _target(n: Nemesis, member: BrokerMember, tp: TopicPartition) -> Path:
    elsewhere = [disk for disk in member.disks if not (disk / tp.directory_name).exists()]
    return n.rng.choice(elsewhere if n.rng.random() < 0.9 else member.disks)
