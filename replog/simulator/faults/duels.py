"""Leaders take turns, each alone with its clients: the hardest case for a follower that searches where logs differ."""

import asyncio
from functools import partial

from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.nemesis import Nemesis, NotNow, both_ways, deed, until
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import SESSION_MS, FaultKind
from replog.simulator.runtime.process import CONTROLLER
from replog.topic import TopicPartition

PATIENCE_S = 3 * (SESSION_MS + LAG_MS) / 1000
POLL_S = 0.02

_until = partial(until, patience_s=PATIENCE_S, poll_s=POLL_S)


@deed(FaultKind.DUEL)
async def duel(n: Nemesis, kind: FaultKind) -> None:
    """A leader loses the other brokers and the controller, while its clients still write to it; then it comes back, and
    the next leader is cut off. Often only two stay eligible, so that each log gets epochs that the other does not have
    (scenario F)."""
    tp = n.partition()
    rivals = [n.leader(tp), n.follower(tp)]
    only_two = n.rng.random() < 0.7
    n.begin(kind, partition=tp, brokers=",".join(rival.name for rival in rivals) if only_two else "all")
    cut: dict[BrokerMember, None] = {}
    try:
        if only_two:
            for member in n.replicas(tp):
                if member not in rivals:
                    _cut(n, member, cut)
            await _until(lambda: _leads(n, tp) in rivals and n.in_sync(tp) <= set(rivals))
        for _ in range(n.rng.randint(2, 6)):
            leader = n.leader(tp)
            await asyncio.sleep(n.rng.random())
            _cut(n, leader, cut)
            for member in [member for member in cut if member is not leader and (member in rivals or not only_two)]:
                _mend(n, member, cut)
            if not await _until(lambda: _leads(n, tp) not in (None, leader)):  # noqa: B023 (awaited here)
                break
    except NotNow:
        pass  # another fault killed the leader
    finally:
        n.kernel.trace.add("mended", kind=kind.value, partition=tp)
        for member in list(cut):
            _mend(n, member, cut)


def _leads(n: Nemesis, tp: TopicPartition) -> BrokerMember | None:
    return n.cluster.members.get(n.cluster.leader_of(tp))


def _peers(n: Nemesis, member: BrokerMember) -> list[str]:
    return [CONTROLLER, *(other.name for other in n.cluster.members.values() if other is not member)]


def _cut(n: Nemesis, member: BrokerMember, cut: dict[BrokerMember, None]) -> None:
    cut[member] = None
    n.cut(both_ways([member.name], _peers(n, member)))


def _mend(n: Nemesis, member: BrokerMember, cut: dict[BrokerMember, None]) -> None:
    """Heal the member's links, except those to members that are still cut off."""
    del cut[member]
    still = {other.name for other in cut}
    n.heal(both_ways([member.name], [peer for peer in _peers(n, member) if peer not in still]))
