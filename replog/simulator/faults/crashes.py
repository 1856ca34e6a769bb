"""Faults of brokers: kills, power losses, pauses, restarts, at moments that hurt."""

import asyncio

from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.nemesis import Nemesis, NotNow, deed
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import FaultKind

START_TIMEOUT_S = 5.0


@deed(FaultKind.KILL)
async def kill(n: Nemesis) -> None:
    member = n.running_broker()
    n.begin(FaultKind.KILL, broker=member.name)
    member.kill()


@deed(FaultKind.KILL_AT_FILE_OPERATION)
async def kill_at_file_operation(n: Nemesis) -> None:
    member = n.running_broker()
    count = n.chance.randint(1, n.chance.choice((5, 50, 300)))
    n.begin(FaultKind.KILL_AT_FILE_OPERATION, broker=member.name, operations=count)
    n.kernel.disk.kill_at(member.process, count)


@deed(FaultKind.KILL_STARTING)
async def kill_starting(n: Nemesis) -> None:
    """Once or twice while it starts and recovers, before it serves."""
    member = n.running_broker()
    n.begin(FaultKind.KILL_STARTING, broker=member.name)
    for _ in range(n.chance.randint(1, 2)):
        await down(member)
        await asyncio.sleep(n.chance.choice((0.0, 0.5, 3.0)))
        member.held = False
        if not member.up:
            member.start()
        if n.chance.random() < 0.5:
            n.kernel.disk.kill_at(member.process, n.chance.randint(1, 60))
        await asyncio.sleep(n.chance.random() * n.chance.choice((0.01, 0.1, 1.0)))
    member.kill()


async def down(member: BrokerMember) -> None:
    """Kill it, and keep it from being started until it is released."""
    member.held = True
    member.kill()
    await asyncio.sleep(0)


@deed(FaultKind.KILL_STOPPING)
async def kill_stopping(n: Nemesis) -> None:
    member = n.running_broker()
    n.begin(FaultKind.KILL_STOPPING, broker=member.name)
    process = member.process
    member.stop()
    if n.chance.random() < 0.5:
        n.kernel.disk.kill_at(process, n.chance.randint(1, 60))
    await asyncio.sleep(n.chance.random() * n.chance.choice((0.05, 0.5)))
    if member.process is process:
        member.kill()


@deed(FaultKind.KILL_LEADERS)
async def kill_leaders(n: Nemesis) -> None:
    """Leader after leader of one partition, faster than a lag period; a clean stop hands over at once."""
    tp = n.partition()
    n.begin(FaultKind.KILL_LEADERS, partition=tp)
    for _ in range(n.chance.randint(2, 10)):
        try:
            leader = n.leader(tp)
        except NotNow:
            pass
        else:
            leader.kill() if n.chance.random() < 0.2 else leader.stop()
        await asyncio.sleep(n.chance.random() * LAG_MS / 1000 / 3)


@deed(FaultKind.POWER_LOSS)
async def power_loss(n: Nemesis) -> None:
    member = n.one_of(
        [
            member
            for member in n.cluster.members.values()
            if member.up and n.cluster.budget.may_harm(member.broker_id, by_power_loss=True)
        ]
    )
    n.begin(FaultKind.POWER_LOSS, broker=member.name)
    n.cluster.harm(member, by_power_loss=True)
    member.power_loss()


@deed(FaultKind.RESTART)
async def restart(n: Nemesis) -> None:
    member = n.running_broker()
    n.begin(FaultKind.RESTART, broker=member.name)
    member.stop()


@deed(FaultKind.ROLLING_RESTART)
async def rolling_restart(n: Nemesis) -> None:
    n.begin(FaultKind.ROLLING_RESTART)
    for member in list(n.cluster.members.values()):
        process = member.process
        member.stop()
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while member.process is process or member.broker is None or not member.broker.manager.started:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            return


@deed(FaultKind.PAUSE)
async def pause(n: Nemesis) -> None:
    """Often past its session: a leader that does not know that it was deposed."""
    member = n.running_broker()
    n.begin(FaultKind.PAUSE, broker=member.name)
    process = member.process
    member.pause()
    await n.for_a_while()
    if member.process is process:
        member.resume()


@deed(FaultKind.CLOCK_JUMP)
async def clock_jump(n: Nemesis) -> None:
    member = n.running_broker()
    jump_ms = n.chance.choice((-1, 1)) * n.chance.choice((500, 60_000, 86_400_000))
    n.begin(FaultKind.CLOCK_JUMP, broker=member.name, jump_ms=jump_ms)
    member.clock.jump(jump_ms)


@deed(FaultKind.DELETE_RECORDS_WHILE_DOWN)
async def delete_records_while_down(n: Nemesis) -> None:
    """The follower comes back to a leader whose log starts after its own end."""
    tp = n.partition()
    member = n.follower(tp)
    n.begin(FaultKind.DELETE_RECORDS_WHILE_DOWN, partition=tp, broker=member.name)
    await down(member)
    try:
        await asyncio.sleep(n.chance.uniform(0.5, 4.0))
        await n.workload.delete_committed(tp)
    finally:
        n.cluster.release(member)
