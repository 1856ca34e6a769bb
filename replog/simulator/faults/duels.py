"""Leaders by turns, each alone with its clients: the hardest case for a follower that looks where its log differs."""

import asyncio
from collections.abc import Callable

from replog.simulator.cluster.members import CONTROLLER, BrokerMember
from replog.simulator.faults.nemesis import Nemesis, NotNow, deed, until
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import SESSION_MS, FaultKind
from replog.topic import TopicPartition

PATIENCE_S = 3 * (SESSION_MS + LAG_MS) / 1000
POLL_S = 0.02


@deed(FaultKind.DUEL)
async def duel(n: Nemesis) -> None:
    """The leader loses the other brokers and the controller, and its clients go on writing to it; then the next leader,
    and the one before comes back. Often only two stay eligible, so that both logs get epochs of which the other
    has never heard (5.4, scenario F)."""
    tp = n.partition()
    rivals = [n.leader(tp), n.follower(tp)]
    only_two = n.chance.random() < 0.7
    n.begin(FaultKind.DUEL, partition=tp, brokers=",".join(rival.name for rival in rivals) if only_two else "all")
    cut: dict[BrokerMember, None] = {}
    try:
        if only_two:
            for member in _replicas(n, tp):
                if member not in rivals:
                    _cut(n, member, cut)
            await _until(lambda: _leads(n, tp) in rivals and n.in_sync(tp) <= set(rivals))
        for _ in range(n.chance.randint(2, 6)):
            leader = n.leader(tp)
            await asyncio.sleep(n.chance.random())
            _cut(n, leader, cut)
            for member in [member for member in cut if member is not leader and (member in rivals or not only_two)]:
                _mend(n, member, cut)
            if not await _until(lambda: _leads(n, tp) not in (None, leader)):  # noqa: B023 (awaited here)
                break
    except NotNow:
        pass  # somebody else killed the leader
    finally:
        n.kernel.trace.add("mended", kind=FaultKind.DUEL.value, partition=tp)
        for member in list(cut):
            _mend(n, member, cut)


def _replicas(n: Nemesis, tp: TopicPartition) -> list[BrokerMember]:
    state = n.cluster.last_image.partitions.get(tp)
    return [n.cluster.members[broker] for broker in state.replicas] if state is not None else []


def _leads(n: Nemesis, tp: TopicPartition) -> BrokerMember | None:
    return n.cluster.members.get(n.cluster.leader_of(tp))


async def _until(holds: Callable[[], bool]) -> bool:
    return await until(holds, PATIENCE_S, POLL_S)


def _peers(n: Nemesis, member: BrokerMember) -> list[str]:
    return [CONTROLLER, *(other.name for other in n.cluster.members.values() if other is not member)]


def _cut(n: Nemesis, member: BrokerMember, cut: dict[BrokerMember, None]) -> None:
    cut[member] = None
    for peer in _peers(n, member):
        n.kernel.network.block(member.name, peer)
        n.kernel.network.block(peer, member.name)


def _mend(n: Nemesis, member: BrokerMember, cut: dict[BrokerMember, None]) -> None:
    """Except the links to those that are still cut off."""
    del cut[member]
    still = {other.name for other in cut}
    for peer in _peers(n, member):
        if peer not in still:
            n.kernel.network.heal(member.name, peer)
            n.kernel.network.heal(peer, member.name)
