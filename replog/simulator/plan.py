"""The cluster of one seed: its brokers, topics, settings and faults, all drawn from the seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from replog.simulator.network.links import Weather
from replog.simulator.profiles import FaultKind, Profile
from replog.simulator.runtime.rng import Rng
from replog.topic import TopicPartition

LAG_MS = 1500
MIN_INSYNC_REPLICAS = 2  # most topics have it, otherwise one power loss may take acknowledged records
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
FSYNC = {"flush.messages": "1"}
FOR_EVER_MS = 10 * 86_400_000  # no simulation lasts this long, however fast its clocks run
FOR_EVER = str(FOR_EVER_MS)

BROKERS_HAVE = {
    "replica.fetch.wait.max.ms": (200, 500),
    "replica.fetch.max.bytes": (300, 4096, 1 << 20),
    "replica.high.watermark.checkpoint.interval.ms": (1000, 5000),
    "log.flush.offset.checkpoint.interval.ms": (2000, 10_000),
    "leader.replication.throttled.rate": (2_000, 20_000),
    "follower.replication.throttled.rate": (2_000, 20_000),
}
TOPICS_HAVE = {  # the share of topics that have the setting, and its values
    "segment.bytes": (0.7, ("1024", "2048", "8192")),
    "index.interval.bytes": (0.5, ("0", "100", "1000")),
    "retention.bytes": (0.2, ("2048", "8192")),
    "message.timestamp.type": (0.1, ("LogAppendTime",)),
    "min.insync.replicas": (0.1, ("1",)),
    "retention.ms": (0.05, ("1000", "5000")),
}
COMPACTED = {  # tombstones stay for half a second, or for good
    "segment.bytes": ("1024", "2048"),
    "min.cleanable.dirty.ratio": ("0.01", "0.3"),
    "delete.retention.ms": ("500", FOR_EVER),
}

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to create, with an explicit assignment of replicas."""

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
    """All that is drawn before a simulation begins."""

    profile: Profile
    racks: Mapping[int, str]  # keys: brokers
    disks: tuple[str, ...]  # each broker has these
    topics: tuple[TopicPlan, ...]
    broker_settings: Mapping[str, object]
    controller_settings: Mapping[str, object]
    weather: Weather
    faults: Mapping[FaultKind, float]  # begun per virtual minute
    trouble_s: float
    fsync: bool  # every topic has flush.messages=1: power losses cost nothing
    eligible_leader_replicas: bool  # False: only the last replica in sync may lead again (ISR-19)

    def topic(self, tp: TopicPartition) -> TopicPlan:
        return next(topic for topic in self.topics if topic.name == tp.topic)

    def replicas(self, tp: TopicPartition) -> tuple[int, ...]:
        """Return the replicas that the partition is created with."""
        return self.topic(tp).assignment[tp.partition]

    @property
    def acknowledged_by_one(self) -> list[TopicPartition]:
        """Partitions in which one replica alone may have an acknowledged record."""
        return [
            TopicPartition(topic.name, number)
            for topic in self.topics
            if topic.configs["min.insync.replicas"] == "1"
            for number in range(len(topic.assignment))
        ]


def draw(chances: Rng, profile: Profile) -> Plan:
    """Draw a plan. Each value has its own stream, otherwise a further value would change all others."""
    brokers = range(1, chances.stream("brokers").randint(*profile.brokers) + 1)
    racks = chances.stream("racks").choice(([""], ["r1", "r2", "r3"]))
    fsync = chances.draw("flush.messages") < 0.15
    eligible_leader_replicas = chances.draw("eligible leader replicas") > 0.1
    permission = AUTHORIZER if profile.permission else {}
    return Plan(
        profile=profile,
        racks={broker: racks[broker % len(racks)] for broker in brokers},
        disks=("disk1", "disk2") if chances.draw("disks") < profile.two_disks else ("disk1",),
        topics=tuple(
            _topic(Rng(f"{chances.seed}/t{number}"), profile, f"t{number}", brokers, fsync)
            for number in range(chances.stream("topics").randint(*profile.topics))
        ),
        broker_settings={
            "broker.heartbeat.interval.ms": 300,
            "replica.lag.time.max.ms": LAG_MS,
            "replica.fetch.backoff.ms": 200,
            "replica.socket.timeout.ms": 1500,
            "log.retention.check.interval.ms": 2000,
            "log.cleaner.backoff.ms": 1000,
            "replica.selector.class": RACK_AWARE if len(racks) > 1 and chances.draw("selector") < 0.7 else "",
            "request.timeout.ms": 3000,
            **{name: chances.stream(name).choice(values) for name, values in BROKERS_HAVE.items()},
            **permission,
        },
        controller_settings={
            "eligible.leader.replicas.enable": eligible_leader_replicas,
            "unclean.leader.election.interval.ms": 1000,
            "broker.session.timeout.ms": profile.session_ms,
            "min.insync.replicas": MIN_INSYNC_REPLICAS,
            "leader.imbalance.check.interval.seconds": chances.stream("imbalance").choice((3, 300)),
            **permission,
        },
        weather=_weather(chances.stream("weather")) if profile.rough_network else Weather(),
        faults=_mix(chances, profile),
        trouble_s=chances.stream("seconds of trouble").uniform(*profile.trouble_s),
        fsync=fsync,
        eligible_leader_replicas=eligible_leader_replicas,
    )


def _topic(chances: Rng, profile: Profile, name: str, brokers: range, fsync: bool) -> TopicPlan:
    """Draw a topic from `chances`, which no other topic uses."""
    rng = chances.stream("assignment")
    factor = min(len(brokers), rng.choice((2, 3, 3, 3, 3, 3, 4)))
    assignment = tuple(tuple(rng.sample(brokers, factor)) for _ in range(rng.randint(*profile.partitions)))
    configs = {"min.insync.replicas": str(MIN_INSYNC_REPLICAS), "file.delete.delay.ms": "1000"}
    for setting, (share, values) in TOPICS_HAVE.items():
        some = chances.stream(setting)
        if some.random() < share:
            configs[setting] = some.choice(values)
    if fsync:
        configs |= FSYNC
    unclean = chances.draw("unclean") < profile.unclean
    if unclean and chances.draw("unclean.leader.election.enable") < 0.5:
        configs["unclean.leader.election.enable"] = "true"
    if chances.draw("expiring") < profile.expiring:  # retention by time only, and no record gets that old
        configs.pop("retention.bytes", None)
        configs |= {"segment.bytes": "1024", "retention.ms": FOR_EVER}
    if chances.draw("compacted") < profile.compacted:
        configs = {name: value for name, value in configs.items() if not name.startswith("retention")}
        configs |= {"cleanup.policy": "compact"}
        configs |= {name: chances.stream(f"{name} if compacted").choice(values) for name, values in COMPACTED.items()}
    transactional = chances.draw("transactional") < profile.transactions
    # An unclean election may lose a marker, and its transaction would then stay open.
    return TopicPlan(name, assignment, configs, unclean, transactional=transactional and not unclean)


def _weather(rng: random.Random) -> Weather:
    bad = rng.random() < 0.5
    return Weather(
        delay_ms=(0.2, rng.choice((1.0, 5.0, 30.0))),
        drop=rng.uniform(0.0, 0.05) if bad else 0.0,
        duplicate=rng.uniform(0.0, 0.05) if bad else 0.0,
        reorder=rng.uniform(0.0, 0.1) if bad else 0.0,
    )


def _mix(chances: Rng, profile: Profile) -> dict[FaultKind, float]:
    """A swarm has a third of the kinds at three times the rate, in combinations that an even mix hardly ever has."""
    if not profile.swarm:
        return dict(profile.faults)
    lots = {kind: chances.draw(f"whether to {kind.value}") for kind in profile.faults}  # a new kind moves one of these
    chosen = sorted(lots, key=lots.__getitem__)[: max(1, len(lots) // 3)]
    return {kind: rate * 3 for kind, rate in profile.faults.items() if kind in chosen}
