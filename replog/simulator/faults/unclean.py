"""Elections that may lose committed records, only in topics that the plan gives up for them."""

import asyncio

from replog.client.descriptions import ElectionType
from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.crashes import down
from replog.simulator.faults.nemesis import Nemesis, NotNow, both_ways, deed, until
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import SESSION_MS, FaultKind
from replog.topic import TopicPartition

PATIENCE_S = 2 * LAG_MS / 1000
POLL_S = 0.05


@deed(FaultKind.ELECT_UNCLEAN)
async def elect_unclean(n: Nemesis, kind: FaultKind) -> None:
    """The in-sync replicas die while another one lags, which is elected by the topic's setting, or by an administrator
    (CT-8, ST-15). The others come back with records that are not committed any more."""
    given_up = [tp for tp in n.workload.partitions if n.cluster.plan.topic(tp).unclean]
    if not given_up:
        raise NotNow
    tp = n.rng.choice(given_up)
    laggard = n.follower(tp)
    links = both_ways([laggard.name], [member.name for member in n.cluster.members.values()])
    n.begin(kind, partition=tp, broker=laggard.name)
    downed: list[BrokerMember] = []
    n.cut(links)
    try:
        await until(lambda: laggard not in _eligible(n, tp), PATIENCE_S, POLL_S)
        await asyncio.sleep(n.rng.random())
        for member in _eligible(n, tp):
            if member is not laggard and member.up:
                downed.append(member)
                await down(member)
        n.heal(links)
        await asyncio.sleep(n.rng.uniform(1.0, 2.0) * SESSION_MS / 1000)
        await n.workload.administer_once(
            "elect leaders uncleanly", lambda admin: admin.elect_leaders(ElectionType.UNCLEAN, [tp])
        )
        await asyncio.sleep(n.rng.random() * 2)
    finally:
        n.heal(links)
        for member in downed:
            n.cluster.release(member)


def _eligible(n: Nemesis, tp: TopicPartition) -> list[BrokerMember]:
    state = n.cluster.last_image.partitions.get(tp)
    return [n.cluster.members[broker] for broker in (*state.isr, *state.elr)] if state is not None else []
