"""What administrators change while a cluster runs: settings of topics, and the rates of brokers."""

from replog.client.admin import Admin
from replog.simulator.faults.nemesis import Nemesis, deed
from replog.simulator.profiles import FaultKind

THROTTLED = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}


@deed(FaultKind.ALTER_SETTINGS)
async def alter_settings(n: Nemesis, kind: FaultKind) -> None:
    """Some settings of a topic for a while, then its first ones again: a higher minimum, a throttle, other segments."""
    topic = n.partition().topic
    first = next(plan.configs for plan in n.cluster.plan.topics if plan.name == topic)
    configs = n.chance.choice(
        (
            {"min.insync.replicas": "3"},
            {"segment.bytes": n.chance.choice(("1024", "4096"))},
            THROTTLED,
            THROTTLED | {"min.insync.replicas": "3", "max.message.bytes": "2000000"},
        )
    )
    n.begin(kind, topic=topic, configs=configs)
    await _alter(n, topic, configs, [])
    await n.for_a_while()
    back = {name: first[name] for name in configs if name in first}
    await _alter(n, topic, back, [name for name in configs if name not in first])


async def _alter(n: Nemesis, topic: str, configs: dict[str, str], delete: list[str]) -> None:
    async def ask(admin: Admin) -> object:
        return dict(sorted((await admin.alter_topic_configs(topic, configs, delete)).items()))  # maps have no order

    await n.workload.administer_once("alter settings", ask)
