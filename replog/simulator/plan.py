"""One seed's cluster: how many brokers, which topics, which settings, how much trouble. All of it from the seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from replog.simulator.checks.compaction import FOR_EVER_MS
from replog.simulator.network.links import Weather
from replog.simulator.profiles import FaultKind, Profile
from replog.simulator.runtime.chance import Chance
from replog.topic import TopicPartition

LAG_MS = 1500
MIN_INSYNC_REPLICAS = 2  # of most topics: what one replica alone acknowledged, one power loss may take
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
FSYNC = {"flush.messages": "1"}
FOR_EVER = str(FOR_EVER_MS)

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to be made, with an explicit assignment of replicas."""

    name: str
    assignment: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]
    unclean: bool = False  # its partitions may have unclean elections, and lose what was committed
    transactional: bool = False  # some of its records come in transactions

    @property
    def retained(self) -> bool:
        return "retention.bytes" in self.configs or self.configs.get("retention.ms", FOR_EVER) != FOR_EVER

    @property
    def compacted(self) -> bool:
        return self.configs.get("cleanup.policy") == "compact"

    @property
    def keeps_tombstones(self) -> bool:
        return self.configs.get("delete.retention.ms") == FOR_EVER


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is decided before a simulation begins."""

    racks: Mapping[int, str]  # by broker
    disks: tuple[str, ...]  # of each broker
    topics: tuple[TopicPlan, ...]
    broker_settings: Mapping[str, object]
    controller_settings: Mapping[str, object]
    weather: Weather
    faults: Mapping[FaultKind, float]  # begun per virtual minute
    trouble_s: float
    fsync: bool  # every topic has flush.messages=1: power losses cost nothing

    scratch_partitions: int = 1
    long_s: float = 8.0  # what a fault that is long takes at most
    controllers: int = 1
    permission: bool = False  # there is an authorizer, and a stranger
    eligible_leader_replicas: bool = True  # else the last in sync is waited for (ISR-19)

    def topic(self, tp: TopicPartition) -> TopicPlan:
        return next(topic for topic in self.topics if topic.name == tp.topic)

    def replicas(self, tp: TopicPartition) -> tuple[int, ...]:
        """As first assigned."""
        return self.topic(tp).assignment[tp.partition]

    @property
    def acknowledged_by_one(self) -> list[TopicPartition]:
        """Partitions of which one replica alone may have what was acknowledged."""
        return [
            TopicPartition(topic.name, number)
            for topic in self.topics
            if topic.configs["min.insync.replicas"] == "1"
            for number in range(len(topic.assignment))
        ]


def draw(chances: Chance, profile: Profile) -> Plan:
    chance, rare = chances.stream("plan"), chances.stream("what is rare in plans")
    keys = chances.stream("which topics are compacted")
    transactions = chances.stream("which topics have transactions")
    times = chances.stream("which topics expire")
    brokers = range(1, chance.randint(*profile.brokers) + 1)
    racks = chance.choice(([""], ["r1", "r2", "r3"]))
    fsync = chance.random() < 0.15
    eligible_leader_replicas = rare.random() > 0.1
    permission = AUTHORIZER if profile.permission else {}
    return Plan(
        permission=profile.permission,
        controllers=profile.controllers,
        racks={broker: racks[broker % len(racks)] for broker in brokers},
        disks=("disk1", "disk2") if chance.random() < profile.two_disks else ("disk1",),
        topics=tuple(
            _transactional(
                transactions,
                profile,
                _compacted(keys, profile, _expiring(times, profile, _unusual(rare, profile, topic))),
            )
            for topic in (
                _topic(chance, f"t{number}", brokers, profile.partitions, fsync)
                for number in range(chance.randint(*profile.topics))
            )
        ),
        scratch_partitions=profile.scratch_partitions,
        long_s=profile.long_s,
        broker_settings={
            "broker.heartbeat.interval.ms": 300,
            "replica.lag.time.max.ms": LAG_MS,
            "replica.fetch.wait.max.ms": chance.choice((200, 500)),
            "replica.fetch.backoff.ms": 200,
            "replica.socket.timeout.ms": 1500,
            "replica.fetch.max.bytes": chance.choice((300, 4096, 1 << 20)),
            "replica.high.watermark.checkpoint.interval.ms": chance.choice((1000, 5000)),
            "log.flush.offset.checkpoint.interval.ms": chance.choice((2000, 10_000)),
            "log.retention.check.interval.ms": 2000,
            "log.cleaner.backoff.ms": 1000,
            "replica.selector.class": RACK_AWARE if len(racks) > 1 and rare.random() < 0.7 else "",
            "leader.replication.throttled.rate": chance.choice((2_000, 20_000)),
            "follower.replication.throttled.rate": chance.choice((2_000, 20_000)),
            "request.timeout.ms": 3000,
            **permission,
        },
        controller_settings={
            "eligible.leader.replicas.enable": eligible_leader_replicas,
            "unclean.leader.election.interval.ms": 1000,
            "broker.session.timeout.ms": profile.session_ms,
            "min.insync.replicas": MIN_INSYNC_REPLICAS,
            "leader.imbalance.check.interval.seconds": chance.choice((3, 300)),
            **permission,
        },
        weather=_weather(chance) if profile.rough_network else Weather(),
        faults=_mix(chance, profile),
        trouble_s=chance.uniform(*profile.trouble_s),
        fsync=fsync,
        eligible_leader_replicas=eligible_leader_replicas,
    )


def _topic(chance: random.Random, name: str, brokers: range, partitions: tuple[int, int], fsync: bool) -> TopicPlan:
    factor = min(len(brokers), chance.choice((2, 3, 3, 3, 3, 3, 4)))
    assignment = tuple(tuple(chance.sample(brokers, factor)) for _ in range(chance.randint(*partitions)))
    configs = {"min.insync.replicas": str(MIN_INSYNC_REPLICAS), "file.delete.delay.ms": "1000"}
    if chance.random() < 0.7:
        configs["segment.bytes"] = str(chance.choice((1024, 2048, 8192)))
    if chance.random() < 0.5:
        configs["index.interval.bytes"] = str(chance.choice((0, 100, 1000)))
    if chance.random() < 0.2:
        configs["retention.bytes"] = str(chance.choice((2048, 8192)))
    if chance.random() < 0.1:
        configs["message.timestamp.type"] = "LogAppendTime"
    if fsync:
        configs |= FSYNC
    return TopicPlan(name, assignment, configs)


def _unusual(chance: random.Random, profile: Profile, topic: TopicPlan) -> TopicPlan:
    """What most topics do not have."""
    configs = dict(topic.configs)
    if chance.random() < 0.1:
        configs["min.insync.replicas"] = "1"
    if chance.random() < 0.05:
        configs["retention.ms"] = str(chance.choice((1000, 5000)))
    unclean = chance.random() < profile.unclean
    if unclean and chance.random() < 0.5:
        configs["unclean.leader.election.enable"] = "true"
    return replace(topic, configs=configs, unclean=unclean)


def _expiring(chance: random.Random, profile: Profile, topic: TopicPlan) -> TopicPlan:
    """A topic that deletes by time alone, and nothing before its time."""
    if chance.random() >= profile.expiring:
        return topic
    configs = {name: value for name, value in topic.configs.items() if name != "retention.bytes"}
    return replace(topic, configs=configs | {"segment.bytes": "1024", "retention.ms": FOR_EVER})


def _compacted(chance: random.Random, profile: Profile, topic: TopicPlan) -> TopicPlan:
    """A topic of which the latest record of each key stays, and tombstones for half a second or for good."""
    if chance.random() >= profile.compacted:
        return topic
    configs = {name: value for name, value in topic.configs.items() if not name.startswith("retention")}
    configs |= {
        "cleanup.policy": "compact",
        "segment.bytes": str(chance.choice((1024, 2048))),
        "min.cleanable.dirty.ratio": chance.choice(("0.01", "0.3")),
        "delete.retention.ms": str(chance.choice((500, FOR_EVER_MS))),
    }
    return replace(topic, configs=configs)


def _transactional(chance: random.Random, profile: Profile, topic: TopicPlan) -> TopicPlan:
    """Not where a marker may be lost uncleanly: its transaction would stay open."""
    drawn = chance.random() < profile.transactions
    return replace(topic, transactional=drawn and not topic.unclean)


def _weather(chance: random.Random) -> Weather:
    bad = chance.random() < 0.5
    return Weather(
        delay_ms=(0.2, chance.choice((1.0, 5.0, 30.0))),
        drop=chance.uniform(0.0, 0.05) if bad else 0.0,
        duplicate=chance.uniform(0.0, 0.05) if bad else 0.0,
        reorder=chance.uniform(0.0, 0.1) if bad else 0.0,
    )


def _mix(chance: random.Random, profile: Profile) -> dict[FaultKind, float]:
    """A swarm takes a third of the kinds and about as many faults: combinations that an even mix hardly ever has."""
    if not profile.swarm:
        return dict(profile.faults)
    kinds = list(profile.faults)
    chosen = chance.sample(kinds, max(1, len(kinds) // 3))
    return {kind: profile.faults[kind] * 3 for kind in kinds if kind in chosen}
