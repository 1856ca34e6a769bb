"""Administrators act at the wrong moment: they elect leaders, move replicas to other brokers, and change settings."""

import asyncio
from dataclasses import replace

from replog.client.admin import Admin
from replog.client.descriptions import ElectionType
from replog.common.acl import Acl, Operation, PatternType, Permission, ResourceType
from replog.config.processes import DEFAULT_USER
from replog.controller.decision import Decision
from replog.metadata.changes import Change
from replog.metadata.records import change_of, record_of
from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.crashes import down
from replog.simulator.faults.nemesis import Nemesis, NotNow, both_ways, fault
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import SESSION_MS, FaultKind
from replog.simulator.runtime.loop import until
from replog.simulator.runtime.process import CONTROLLER
from replog.topic import TopicPartition

ODD = {"min_insync_replicas": "9", "retention.ms": "1h", "later.setting": "x", "flush.messages": "1_000.0"}
ODD_RATES = {"leader_replication_throttled_rate": "10MB", "later.rate": "1", "producer_byte_rate": "fast"}
ODD_ACL = Acl(ResourceType(99), "t", PatternType(99), "User:*", "*", Operation(99), Permission(99))
THROTTLED = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}


@fault(FaultKind.ELECT_PREFERRED)
async def elect_preferred(n: Nemesis, kind: FaultKind) -> None:
    n.begin(kind)
    await n.workload.administer_once("elect leaders", lambda admin: admin.elect_leaders(ElectionType.PREFERRED))


@fault(FaultKind.REASSIGN)
async def reassign(n: Nemesis, kind: FaultKind) -> None:
    """A partition moves to as many brokers, drawn again, sometimes with a throttle; every other time the move is
    cancelled after a while (CT-14 to CT-16)."""
    tp = n.partition()
    brokers = list(n.cluster.members)
    replicas = len(n.cluster.plan.replicas(tp))
    target = n.rng.sample(brokers, replicas)
    throttle = n.rng.choice((0, 0, 2_000, 20_000))
    n.begin(kind, partition=tp, target=target, throttle=throttle)
    await _move(n, tp, target, throttle)
    if n.rng.random() < 0.5:
        await n.for_a_while()
        n.kernel.trace.add("reassignment taken back", partition=tp)
        await _move(n, tp, None)


@fault(FaultKind.HAND_ROUND)
async def hand_round(n: Nemesis, kind: FaultKind) -> None:
    """Several live brokers lead within one lag period, so that their requests and answers cross epochs. Some lead again
    without having heard that another led meanwhile (ST-11)."""
    tp = n.partition()
    n.begin(kind, partition=tp)
    for _ in range(n.rng.randint(2, 10)):
        state = n.cluster.last_image.partitions.get(tp)
        if state is None or state.reassigning:
            return
        leader = n.cluster.members.get(state.leader)
        if leader is not None and n.rng.random() < 0.3:
            await _lead_behind_back(n, tp, leader, n.rng.sample(state.replicas, len(state.replicas)))
        else:
            await _prefer(n, tp, n.rng.sample(state.replicas, len(state.replicas)))
        await asyncio.sleep(n.rng.random() * n.rng.choice((0.02, 0.2, LAG_MS / 1000 / 3)))


async def _lead_behind_back(n: Nemesis, tp: TopicPartition, leader: BrokerMember, replicas: list[int]) -> None:
    """A replica that lags a little leads while the leader does not hear the controller; then the leader leads again."""
    others = [replica for replica in replicas if replica != leader.broker_id]
    if not others:
        return
    candidate = n.cluster.members[others[0]].name
    n.kernel.network.slow(candidate, leader.name, (100.0, 500.0))
    await asyncio.sleep(n.rng.random() * 0.5)
    n.kernel.network.block(CONTROLLER, leader.name)
    await _prefer(n, tp, [*others, leader.broker_id])
    await asyncio.sleep(n.rng.random() * 0.3)
    await _prefer(n, tp, [leader.broker_id, *others])
    n.kernel.network.break_connections(leader.name, CONTROLLER)
    n.kernel.network.heal(CONTROLLER, leader.name)
    n.kernel.network.slow(candidate, leader.name, (0.0, 0.0))


@fault(FaultKind.LEAD_ALONE)
async def lead_alone(n: Nemesis, kind: FaultKind) -> None:
    """A replica without the newest records leads, and no other broker hears of it; then one with them leads. They are
    committed, some are deleted, and the first comes back with an epoch that nobody else has (R-W-T13)."""
    tp = n.partition()
    leader, laggard = n.leader(tp), n.follower(tp)
    others = [replica for replica in n.cluster.last_image.partitions[tp].replicas if replica != laggard.broker_id]
    if len(others) < 2:
        raise NotNow  # the others could commit nothing without it
    links = both_ways([laggard.name], [member.name for member in n.cluster.members.values()])
    n.begin(kind, partition=tp, leader=leader.name, laggard=laggard.name)
    n.cut(links)
    try:
        await asyncio.sleep(n.rng.uniform(0.2, 0.6))
        await _prefer(n, tp, [laggard.broker_id, *others])
        end = _log_end(laggard, tp)
        await _prefer(n, tp, [*others, laggard.broker_id])
        await asyncio.sleep(n.rng.uniform(1.5, 2.0) * LAG_MS / 1000)  # commits wait for the laggard until then
        await n.workload.delete_committed(tp, end + n.rng.randint(1, 3))
    finally:
        n.heal(links)


def _log_end(member: BrokerMember, tp: TopicPartition) -> int:
    hosted = member.broker.replicas.hosted.get(tp) if member.broker is not None else None
    if hosted is None:
        raise NotNow
    return hosted.log.log_end_offset


async def _prefer(n: Nemesis, tp: TopicPartition, replicas: list[int]) -> None:
    """Assign these replicas in this order, and elect the first of them that may lead."""
    await _move(n, tp, replicas)
    await n.workload.administer_once("elect leaders", lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [tp]))


async def _move(n: Nemesis, tp: TopicPartition, target: list[int] | None, throttle: int = 0) -> None:
    await n.workload.administer_once(
        "reassign", lambda admin: admin.alter_partition_reassignments({tp: target}, throttle)
    )


@fault(FaultKind.ELECT_UNCLEAN)
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
        await until(lambda: laggard not in _eligible(n, tp), 2 * LAG_MS / 1000, 0.05)
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


@fault(FaultKind.ALTER_SETTINGS)
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


@fault(FaultKind.STORE_SETTINGS)
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
