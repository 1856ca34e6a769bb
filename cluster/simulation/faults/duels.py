"""Leaders by turns, each alone with its clients: the hardest case for a follower that looks where its log differs."""

import asyncio
from collections.abc import Callable

from cluster.simulation.members import CONTROLLER, BrokerMember
from cluster.simulation.nemesis import Nemesis, NotNow, deed
from cluster.simulation.plan import LAG_MS, SESSION_MS
from cluster.simulation.profiles import Fault
from replog.topic import TopicPartition

PATIENCE_S = 3 * (SESSION_MS + LAG_MS) / 1000
POLL_S = 0.02


@deed(Fault.DUEL)
async def duel(n: Nemesis) -> None:
    """Two replicas of a partition stay eligible; whoever leads loses the others and the controller, and its clients
    go on writing to it. So both logs get epochs of which the other has never heard (5.4, scenario F)."""
    tp = n.partition()
    first, second = n.leader(tp), n.follower(tp)
    others = [n.cluster.members[broker] for broker in _replicas(n, tp)]
    n.begin(Fault.DUEL, partition=tp, brokers=f"{first.name},{second.name}")
    isolated: dict[str, None] = {}
    try:
        for member in others:
            if member not in (first, second):
                _cut(n, member, isolated)
        await _until(n, lambda: _leads(n, tp) in (first, second) and _in_sync(n, tp) <= {first, second})
        for _ in range(n.chance.randint(2, 6)):
            leader = n.leader(tp)
            rival = second if leader is first else first
            await asyncio.sleep(n.chance.random())
            _cut(n, leader, isolated)
            _mend(n, rival, isolated)
            if not await _until(n, lambda: _leads(n, tp) is rival):  # noqa: B023 (awaited here)
                break
    except NotNow:
        pass  # somebody else killed one of them
    finally:
        n.kernel.trace.add("mended", kind=Fault.DUEL.value, partition=tp)
        for name in list(isolated):
            _mend(n, n.cluster.members[int(name.rpartition("-")[2])], isolated)


def _replicas(n: Nemesis, tp: TopicPartition) -> tuple[int, ...]:
    state = n.cluster.last_image.partitions.get(tp)
    return state.replicas if state is not None else ()


def _in_sync(n: Nemesis, tp: TopicPartition) -> set[BrokerMember]:
    state = n.cluster.last_image.partitions.get(tp)
    return {n.cluster.members[broker] for broker in state.isr} if state is not None else set()


def _leads(n: Nemesis, tp: TopicPartition) -> BrokerMember | None:
    return n.cluster.members.get(n.cluster.leader_of(tp))


async def _until(n: Nemesis, holds: Callable[[], bool]) -> bool:
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_S
    while not holds():
        if loop.time() > until:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _peers(n: Nemesis, member: BrokerMember) -> list[str]:
    return [CONTROLLER, *(other.name for other in n.cluster.members.values() if other is not member)]


def _cut(n: Nemesis, member: BrokerMember, isolated: dict[str, None]) -> None:
    isolated[member.name] = None
    for peer in _peers(n, member):
        n.kernel.network.block(member.name, peer)
        n.kernel.network.block(peer, member.name)


def _mend(n: Nemesis, member: BrokerMember, isolated: dict[str, None]) -> None:
    """But for the links to those that are still cut off."""
    if isolated.pop(member.name, "no") is None:
        for peer in _peers(n, member):
            if peer not in isolated:
                n.kernel.network.heal(member.name, peer)
                n.kernel.network.heal(peer, member.name)
