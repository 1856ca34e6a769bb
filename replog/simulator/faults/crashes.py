"""Faults of brokers: kills, power losses, pauses, restarts, at moments that hurt; and requests and answers that arrive
after their sender has died, or when they are no longer true."""

import asyncio
from functools import partial

from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.nemesis import Nemesis, NotNow, fault
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import FaultKind
from replog.simulator.runtime.loop import until
from replog.simulator.runtime.process import CONTROLLER

START_TIMEOUT_S = 5.0
MONTH_MS = 30 * 86_400_000
LATE_S = 3 * LAG_MS / 1000  # long enough for a replica to join the ISR and to be dropped again


@fault(FaultKind.KILL, FaultKind.RESTART)
async def kill_or_stop(n: Nemesis, kind: FaultKind) -> None:
    """A broker dies or stops, and starts again after a while."""
    member = n.running_broker()
    n.begin(kind, broker=member.name)
    member.kill() if kind is FaultKind.KILL else member.stop()


@fault(FaultKind.KILL_AT_FILE_OPERATION)
async def kill_at_file_operation(n: Nemesis, kind: FaultKind) -> None:
    member = n.running_broker()
    count = n.rng.randint(1, n.rng.choice((5, 50, 300)))
    n.begin(kind, broker=member.name, operations=count)
    n.kernel.disk.kill_at(member.process, count)


@fault(FaultKind.KILL_STARTING)
async def kill_starting(n: Nemesis, kind: FaultKind) -> None:
    """A broker dies once or twice while it starts and recovers, before it serves."""
    member = n.running_broker()
    n.begin(kind, broker=member.name)
    for _ in range(n.rng.randint(1, 2)):
        await down(member)
        await asyncio.sleep(n.rng.choice((0.0, 0.5, 3.0)))
        member.held = False
        if not member.up:
            member.start()
        if n.rng.random() < 0.5:
            n.kernel.disk.kill_at(member.process, n.rng.randint(1, 60))
        await asyncio.sleep(n.rng.random() * n.rng.choice((0.01, 0.1, 1.0)))
    member.kill()


async def down(member: BrokerMember) -> None:
    """Kill a broker, and keep it from starting until it is released."""
    member.held = True
    member.kill()
    await asyncio.sleep(0)


@fault(FaultKind.KILL_STOPPING)
async def kill_stopping(n: Nemesis, kind: FaultKind) -> None:
    member = n.running_broker()
    n.begin(kind, broker=member.name)
    process = member.process
    member.stop()
    if n.rng.random() < 0.5:
        n.kernel.disk.kill_at(process, n.rng.randint(1, 60))
    await asyncio.sleep(n.rng.random() * n.rng.choice((0.05, 0.5)))
    if member.process is process:
        member.kill()


@fault(FaultKind.KILL_LEADERS)
async def kill_leaders(n: Nemesis, kind: FaultKind) -> None:
    """Kill or stop leader after leader of a partition, faster than a lag period; a clean stop hands over at once."""
    tp = n.partition()
    n.begin(kind, partition=tp)
    for _ in range(n.rng.randint(2, 10)):
        try:
            leader = n.leader(tp)
        except NotNow:
            pass
        else:
            leader.kill() if n.rng.random() < 0.2 else leader.stop()
        await asyncio.sleep(n.rng.random() * LAG_MS / 1000 / 3)


@fault(FaultKind.POWER_LOSS)
async def power_loss(n: Nemesis, kind: FaultKind) -> None:
    member = n.one_of([member for member in n.cluster.members.values() if n.cluster.may_lose_power(member)])
    n.begin(kind, broker=member.name)
    n.cluster.lose_power(member)


@fault(FaultKind.ROLLING_RESTART)
async def rolling_restart(n: Nemesis, kind: FaultKind) -> None:
    n.begin(kind)
    for member in list(n.cluster.members.values()):
        process = member.process
        member.stop()
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while member.process is process or member.broker is None or not member.broker.replicas.started:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            return


@fault(FaultKind.PAUSE)
async def pause(n: Nemesis, kind: FaultKind) -> None:
    """A broker stands still, often for longer than its session, and so leads without knowing that it was deposed."""
    member = n.running_broker()
    await n.lasting(kind, member.pause, partial(member.resume, member.process), broker=member.name)


@fault(FaultKind.CLOCK_JUMP)
async def clock_jump(n: Nemesis, kind: FaultKind) -> None:
    member = n.running_broker()
    jump_ms = n.rng.choice((-1, 1)) * n.rng.choice((500, 60_000, 86_400_000))
    n.begin(kind, broker=member.name, jump_ms=jump_ms)
    member.clock.jump(jump_ms)


@fault(FaultKind.WRONG_CLOCK)
async def wrong_clock(n: Nemesis, kind: FaultKind) -> None:
    """One clock at a time is wrong by a month: nobody could know that two are wrong alike."""
    hosts = [*n.cluster.members.values(), *n.cluster.controller_members]
    if any(abs(host.clock.skew_ms) > MONTH_MS // 2 for host in hosts):
        raise NotNow
    host, by_ms = n.rng.choice(hosts), n.rng.choice((-MONTH_MS, MONTH_MS))
    await n.lasting(
        kind, partial(host.clock.jump, by_ms), partial(host.clock.jump, -by_ms), host=host.name, by_ms=by_ms
    )


@fault(FaultKind.DELETE_RECORDS_WHILE_DOWN)
async def delete_records_while_down(n: Nemesis, kind: FaultKind) -> None:
    """A follower comes back to a leader whose log starts after its own end."""
    tp = n.partition()
    member = n.follower(tp)
    n.begin(kind, partition=tp, broker=member.name)
    await down(member)
    try:
        await asyncio.sleep(n.rng.uniform(0.5, 4.0))
        await n.workload.delete_committed(tp)
    finally:
        n.cluster.release(member)


_until = partial(until, patience_s=2 * LAG_MS / 1000, poll_s=0.005)


@fault(FaultKind.BREAK_UNDER_PROPOSAL)
async def break_under_proposal(n: Nemesis, kind: FaultKind) -> None:
    """A follower comes back, and the controller takes it into the ISR; the leader gets no answer and asks again
    (ISR-10)."""
    tp = n.partition()
    leader, follower = n.leader(tp).name, n.follower(tp)
    n.begin(kind, partition=tp, leader=leader, follower=follower.name)
    network = n.kernel.network
    network.slow(CONTROLLER, leader, (100.0, 400.0))
    try:
        await _restart(follower)
        await _until(lambda: any(call.what == "alter_partition" and call.up.source == leader for call in network.calls))
        await asyncio.sleep(n.rng.random() * 0.1)
        network.break_connections(leader, CONTROLLER)
    finally:
        network.slow(CONTROLLER, leader, (0.0, 0.0))


@fault(FaultKind.REPEAT_LATE)
async def repeat_late(n: Nemesis, kind: FaultKind) -> None:
    """Requests of a broker reach the controller once more when they are long out of date (CT-3, §6.4 row 6)."""
    broker = n.running_broker().name
    repeat = partial(n.kernel.network.repeat_late, broker, CONTROLLER)
    await n.lasting(kind, lambda: repeat(LATE_S), lambda: repeat(0.0), broker=broker)


@fault(FaultKind.RESTART_BEFORE_REQUESTS)
async def restart_before_requests(n: Nemesis, kind: FaultKind) -> None:
    """A follower's old fetches still arrive when it has restarted and its leader knows that (ST-7.1)."""
    tp = n.partition()
    leader, follower = n.leader(tp).name, n.follower(tp)
    n.begin(kind, partition=tp, broker=follower.name)
    delay_ms = LAG_MS * n.rng.random()
    n.kernel.network.slow(follower.name, leader, (delay_ms / 2, delay_ms))
    try:
        await asyncio.sleep(n.rng.random())
        await _restart(follower)
    finally:
        n.kernel.network.slow(follower.name, leader, (0.0, 0.0))


@fault(FaultKind.RESTART_UNANSWERED)
async def restart_unanswered(n: Nemesis, kind: FaultKind) -> None:
    """Producers do not hear their leader's answers. Its followers have the records and restart, and one of them leads
    when the producers send again (PS-10)."""
    tp = n.partition()
    leader = n.leader(tp)
    state = n.cluster.last_image.partitions[tp]
    followers = [n.cluster.members[broker] for broker in state.isr if broker != leader.broker_id]
    n.begin(kind, partition=tp, leader=leader.name)
    links = [(leader.name, name) for name in n.workload.clients if name.startswith("producer")]
    n.cut(links)
    try:
        await asyncio.sleep(n.rng.random() * 0.5)
        await asyncio.gather(*(_restart(follower) for follower in followers))
        await _until(lambda: n.in_sync(tp) >= set(followers))
        leader.stop()
        await _until(lambda: n.cluster.leader_of(tp) != leader.broker_id)
    finally:
        n.heal(links)


async def _restart(member: BrokerMember) -> None:
    """Restart a broker cleanly and at once."""
    process = member.process
    member.stop()
    if await _until(lambda: not member.up or member.process is not process) and not member.up and not member.held:
        member.start()
