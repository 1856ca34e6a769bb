"""Administrators change settings of topics and rates of brokers while the cluster runs."""

import asyncio
from dataclasses import replace

from replog.client.admin import Admin
from replog.common.acl import Acl, Operation, PatternType, Permission, ResourceType
from replog.config.processes import DEFAULT_USER
from replog.controller.decision import Decision
from replog.metadata.changes import Change
from replog.metadata.records import change_of, record_of
from replog.simulator.faults.nemesis import Nemesis, NotNow, deed
from replog.simulator.profiles import FaultKind

ODD = {"min_insync_replicas": "9", "retention.ms": "1h", "later.setting": "x", "flush.messages": "1_000.0"}
ODD_RATES = {"leader_replication_throttled_rate": "10MB", "later.rate": "1", "producer_byte_rate": "fast"}
ODD_ACL = Acl(ResourceType(99), "t", PatternType(99), "User:*", "*", Operation(99), Permission(99))
THROTTLED = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}


@deed(FaultKind.ALTER_SETTINGS)
async def alter_settings(n: Nemesis, kind: FaultKind) -> None:
    """Change some settings of a topic for a while: the minimum of replicas in sync, throttles, the size of segments."""
    topic = n.partition().topic
    first = next(plan.configs for plan in n.cluster.plan.topics if plan.name == topic)
    configs = n.rng.choice(
        (
            {"min.insync.replicas": "3"},
            {"segment.bytes": n.rng.choice(("1024", "4096"))},
            THROTTLED,
            THROTTLED | {"min.insync.replicas": "3", "max.message.bytes": "2000000"},
        )
    )
    n.begin(kind, topic=topic, configs=configs)
    await _alter(n, topic, configs, [])
    await n.for_a_while()
    back = {name: first[name] for name in configs if name in first}
    await _alter(n, topic, back, [name for name in configs if name not in first])


@deed(FaultKind.STORE_SETTINGS)
async def store_settings(n: Nemesis, kind: FaultKind) -> None:
    """Put wrong names, odd notations and values of a later release into the store, past the checks of requests. Nobody
    may fail because of them. Some are removed again."""
    tp, controller, member = n.partition(), n.cluster.controller, n.cluster.controller_member
    stored = controller.state.image.topics.get(tp.topic) if controller is not None and member.running else None
    if controller is None or stored is None:
        raise NotNow
    n.begin(kind, topic=tp.topic)
    changes = [
        Change("topic", tp.topic, replace(stored, configs=ODD | dict(stored.configs))),
        *(Change("broker_config", broker_id, ODD_RATES) for broker_id in controller.state.image.brokers),
        Change("client_quota", DEFAULT_USER, ODD_RATES),
        Change("acl", "99" * 16, ODD_ACL),
    ]
    read = [change_of(record_of(change)) for change in changes]  # the controller's form of them after a start
    task = n.kernel.loop.spawn(member.process, controller.decide(lambda _: Decision(read, None)))
    await asyncio.wait([task], timeout=5)
    if task.done() and not task.cancelled():
        task.exception()  # otherwise asyncio would report the failure, which any decision may meet
    await n.for_a_while()
    await _alter(n, tp.topic, {}, [name for name in ODD if name not in (*stored.configs, "min_insync_replicas")])


async def _alter(n: Nemesis, topic: str, configs: dict[str, str], delete: list[str]) -> None:
    async def ask(admin: Admin) -> object:
        return dict(sorted((await admin.alter_topic_configs(topic, configs, delete)).items()))  # maps have no order

    await n.workload.administer_once("alter settings", ask)
