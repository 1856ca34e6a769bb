"""Elections that may lose what is committed: only of topics that the plan gives up for it."""

import asyncio

from replog.client.admin import Admin
from replog.client.descriptions import ElectionType
from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.crashes import down
from replog.simulator.faults.nemesis import Nemesis, NotNow, deed
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import SESSION_MS, FaultKind
from replog.topic import TopicPartition

PATIENCE_S = 2 * LAG_MS / 1000
POLL_S = 0.05


@deed(FaultKind.ELECT_UNCLEAN)
async def elect_unclean(n: Nemesis) -> None:
    """The in-sync replicas die while another one lags, and that one is elected: for the topic's setting, or because
    an administrator asks (CT-8, ST-15). Those that died come back with what is committed no more."""
    given_up = [tp for tp in n.workload.partitions if n.cluster.plan.topic(tp).unclean]
    if not given_up:
        raise NotNow
    tp = n.chance.choice(given_up)
    laggard = n.follower(tp)
    others = [member.name for member in n.cluster.members.values() if member is not laggard]
    n.begin(FaultKind.ELECT_UNCLEAN, partition=tp, broker=laggard.name)
    downed: list[BrokerMember] = []
    _cut(n, laggard, others, True)
    try:
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while laggard in _eligible(n, tp) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(POLL_S)
        await asyncio.sleep(n.chance.random())
        for member in _eligible(n, tp):
            if member is not laggard and member.up:
                downed.append(member)
                await down(member)
        _cut(n, laggard, others, False)
        await asyncio.sleep(n.chance.uniform(1.0, 2.0) * SESSION_MS / 1000)

        async def ask(admin: Admin) -> object:
            return await admin.elect_leaders(ElectionType.UNCLEAN, [tp])

        await n.workload.administer_once("elect leaders uncleanly", ask)
        await asyncio.sleep(n.chance.random() * 2)
    finally:
        _cut(n, laggard, others, False)
        for member in downed:
            n.cluster.release(member)


def _eligible(n: Nemesis, tp: TopicPartition) -> list[BrokerMember]:
    state = n.cluster.last_image.partitions.get(tp)
    return [n.cluster.members[broker] for broker in (*state.isr, *state.elr)] if state is not None else []


def _cut(n: Nemesis, member: BrokerMember, others: list[str], cut: bool) -> None:
    change = n.kernel.network.block if cut else n.kernel.network.heal
    for other in others:
        change(member.name, other)
        change(other, member.name)
