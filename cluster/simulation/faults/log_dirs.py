"""Replicas that move between their broker's log directories, and what happens to the broker meanwhile."""

import asyncio

from cluster.simulation.members import BrokerMember
from cluster.simulation.nemesis import Nemesis, NotNow, deed
from cluster.simulation.profiles import Fault
from replog.client.admin import Admin
from replog.topic import TopicPartition


@deed(Fault.MOVE_LOG_DIR)
async def move_log_dir(n: Nemesis) -> None:
    """Some of a broker's replicas, each to any of its directories: where it is already, a move is called off.

    Every other time the broker dies on the way: at one of its next changes of files, or because its power goes.
    """
    if len(n.cluster.plan.disks) < 2:
        raise NotNow
    member = n.running_broker()
    moves = {tp: n.chance.choice(member.disks).as_posix() for tp in n.workload.partitions if n.chance.random() < 0.7}
    n.begin(Fault.MOVE_LOG_DIR, broker=member.name, moves={str(tp): to for tp, to in moves.items()})
    process, fate = member.process, n.chance.random()
    if fate < 0.35:
        n.kernel.disk.kill_at(process, n.chance.randint(1, n.chance.choice((20, 60, 150))))
    await _move(n, member, moves)
    if fate > 0.65:
        await asyncio.sleep(n.chance.random() * n.chance.choice((0.01, 0.1)))
        if member.process is process and member.up and n.cluster.budget.may_harm(member.broker_id, by_power_loss=True):
            n.cluster.harm(member, by_power_loss=True)
            member.power_loss()


async def _move(n: Nemesis, member: BrokerMember, moves: dict[TopicPartition, str]) -> None:
    async def ask(admin: Admin) -> object:
        return await admin.alter_replica_log_dirs(member.broker_id, moves)

    await n.workload.administer_once("move between log directories", ask)
