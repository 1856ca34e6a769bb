"""Requests and answers that outlive their sender, or what they were about."""

import asyncio
from collections.abc import Callable

from replog.simulator.cluster.members import CONTROLLER, BrokerMember
from replog.simulator.faults.nemesis import Nemesis, deed, until
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import FaultKind

PATIENCE_S = 2 * LAG_MS / 1000
POLL_S = 0.005
LATE_S = 3 * LAG_MS / 1000  # long enough for a replica to join the ISR and to be dropped again


@deed(FaultKind.BREAK_UNDER_PROPOSAL)
async def break_under_proposal(n: Nemesis) -> None:
    """A follower comes back, the controller takes it into the ISR, and the leader does not hear so and asks again
    (ISR-10)."""
    tp = n.partition()
    leader, follower = n.leader(tp).name, n.follower(tp)
    n.begin(FaultKind.BREAK_UNDER_PROPOSAL, partition=tp, leader=leader, follower=follower.name)
    network = n.kernel.network
    network.slow(CONTROLLER, leader, (100.0, 400.0))
    try:
        await _restart(follower)
        await _until(lambda: any(call.what == "alter_partition" and call.up.source == leader for call in network.calls))
        await asyncio.sleep(n.chance.random() * 0.1)
        network.break_connections(leader, CONTROLLER)
    finally:
        network.slow(CONTROLLER, leader, (0.0, 0.0))


@deed(FaultKind.REPEAT_LATE)
async def repeat_late(n: Nemesis) -> None:
    """What a broker says to the controller comes once more when it is long true no more (CT-3, §6.4 row 6)."""
    broker = n.running_broker().name
    n.begin(FaultKind.REPEAT_LATE, broker=broker)
    n.kernel.network.repeat_late(broker, CONTROLLER, LATE_S)
    await n.for_a_while()
    n.kernel.network.repeat_late(broker, CONTROLLER, 0.0)


@deed(FaultKind.RESTART_BEFORE_REQUESTS)
async def restart_before_requests(n: Nemesis) -> None:
    """A follower's fetches are under way still when it is back, and the leader knows that it is (ST-7.1)."""
    tp = n.partition()
    leader, follower = n.leader(tp).name, n.follower(tp)
    n.begin(FaultKind.RESTART_BEFORE_REQUESTS, partition=tp, broker=follower.name)
    delay_ms = LAG_MS * n.chance.random()
    n.kernel.network.slow(follower.name, leader, (delay_ms / 2, delay_ms))
    try:
        await asyncio.sleep(n.chance.random())
        await _restart(follower)
    finally:
        n.kernel.network.slow(follower.name, leader, (0.0, 0.0))


@deed(FaultKind.RESTART_UNANSWERED)
async def restart_unanswered(n: Nemesis) -> None:
    """Producers do not hear their leader. Its followers have what they sent and restart, and one of them leads when
    it is sent again (PS-10)."""
    tp = n.partition()
    leader = n.leader(tp)
    state = n.cluster.last_image.partitions[tp]
    followers = [n.cluster.members[broker] for broker in state.isr if broker != leader.broker_id]
    n.begin(FaultKind.RESTART_UNANSWERED, partition=tp, leader=leader.name)
    producers = [name for name in n.workload.clients if name.startswith("producer")]
    for producer in producers:
        n.kernel.network.block(leader.name, producer)
    try:
        await asyncio.sleep(n.chance.random() * 0.5)
        await asyncio.gather(*(_restart(follower) for follower in followers))
        await _until(lambda: n.in_sync(tp) >= set(followers))
        leader.stop()
        await _until(lambda: n.cluster.leader_of(tp) != leader.broker_id)
    finally:
        for producer in producers:
            n.kernel.network.heal(leader.name, producer)


async def _restart(member: BrokerMember) -> None:
    """Cleanly, and without a pause."""
    process = member.process
    member.stop()
    if await _until(lambda: not member.up or member.process is not process) and not member.up and not member.held:
        member.start()


async def _until(holds: Callable[[], bool]) -> bool:
    return await until(holds, PATIENCE_S, POLL_S)
