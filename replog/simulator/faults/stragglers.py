"""Requests and answers arrive after their sender has died, or when they are no longer true."""

import asyncio
from functools import partial

from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.nemesis import Nemesis, deed, until
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import FaultKind
from replog.simulator.runtime.process import CONTROLLER

PATIENCE_S = 2 * LAG_MS / 1000
POLL_S = 0.005
LATE_S = 3 * LAG_MS / 1000  # long enough for a replica to join the ISR and to be dropped again

_until = partial(until, patience_s=PATIENCE_S, poll_s=POLL_S)


@deed(FaultKind.BREAK_UNDER_PROPOSAL)
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


@deed(FaultKind.REPEAT_LATE)
async def repeat_late(n: Nemesis, kind: FaultKind) -> None:
    """Requests of a broker reach the controller once more when they are long out of date (CT-3, §6.4 row 6)."""
    broker = n.running_broker().name
    repeat = partial(n.kernel.network.repeat_late, broker, CONTROLLER)
    await n.lasting(kind, lambda: repeat(LATE_S), lambda: repeat(0.0), broker=broker)


@deed(FaultKind.RESTART_BEFORE_REQUESTS)
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


@deed(FaultKind.RESTART_UNANSWERED)
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
