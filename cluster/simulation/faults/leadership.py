"""What administrators do at the wrong moment: elections, and replicas that move to other brokers."""

from cluster.simulation.nemesis import Nemesis, deed
from cluster.simulation.profiles import Fault
from replog.client.admin import Admin
from replog.client.leadership import ElectionType
from replog.topic import TopicPartition


@deed(Fault.ELECT_PREFERRED)
async def elect_preferred(n: Nemesis) -> None:
    n.begin(Fault.ELECT_PREFERRED)

    async def ask(admin: Admin) -> object:
        return await admin.elect_leaders(ElectionType.PREFERRED)

    await n.workload.administer_once("elect leaders", ask)


@deed(Fault.REASSIGN)
async def reassign(n: Nemesis) -> None:
    """To as many brokers as before, chosen anew; every other time it is taken back a while later (CT-14 to CT-16)."""
    tp = n.partition()
    brokers = list(n.cluster.members)
    replicas = len(n.cluster.plan.replicas(tp))
    target = n.chance.sample(brokers, replicas)
    n.begin(Fault.REASSIGN, partition=tp, target=target)
    await _move(n, tp, target)
    if n.chance.random() < 0.5:
        await n.for_a_while()
        n.kernel.trace.add("reassignment taken back", partition=tp)
        await _move(n, tp, None)


async def _move(n: Nemesis, tp: TopicPartition, target: list[int] | None) -> None:
    async def ask(admin: Admin) -> object:
        return await admin.alter_partition_reassignments({tp: target})

    await n.workload.administer_once("reassign", ask)
