"""The changes that an event of a broker makes to its partitions (§9.2). Pure.

There may be thousands: each is made when the caller takes it, and the image must not change until the last."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from replog.config.topic import topic_config
from replog.controller.elections import Leaves, Situation, Strategy, elect, remove_from_isr
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import LEAST_CANDIDATES, NO_LEADER, BrokerRegistration, PartitionState
from replog.topic import TopicPartition

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"
UNCLEAN_RECOVERY_STRATEGY = "unclean.recovery.strategy"


class OfflineReplica(NamedTuple):
    """A replica that its broker cannot read (CT-27)."""

    topic_partition: TopicPartition
    topic_id: bytes
    is_gone: bool = False  # its records are gone, and the broker is about to make it again, empty


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that decide elections."""

    min_insync_replicas: int  # a topic's own setting goes before it
    eligible_leader_replicas: bool = True
    strategy: Strategy = Strategy.BALANCED  # a topic's own setting goes before it


def active_brokers(image: MetadataImage) -> frozenset[int]:
    """Return the brokers that may lead and join in-sync sets (CT-7)."""
    return frozenset(broker.broker_id for broker in image.brokers.values() if broker.active)


def situation(image: MetadataImage, rules: Rules, topic: str, active: frozenset[int]) -> Situation:
    return situation_under(image.topics[topic].configs, rules, active)


def situation_under(configs: Mapping[str, str], rules: Rules, active: frozenset[int]) -> Situation:
    """Return the situation of a topic with these settings."""
    strategy = recovery_strategy(configs, rules.strategy)
    return Situation(active, min_insync_replicas(configs, rules), rules.eligible_leader_replicas, strategy)


def recovery_strategy(configs: Mapping[str, str], default: Strategy) -> Strategy:
    """Return the strategy of a topic with these settings (CT-31): unclean.leader.election.enable=true makes it
    AGGRESSIVE, and a false of the topic itself undoes an AGGRESSIVE default."""
    said = topic_config("", configs)
    if UNCLEAN_LEADER_ELECTION in configs and said.unclean_leader_election_enable:
        return Strategy.AGGRESSIVE
    if UNCLEAN_RECOVERY_STRATEGY in configs:
        return Strategy(said.unclean_recovery_strategy)
    return Strategy.BALANCED if UNCLEAN_LEADER_ELECTION in configs and default is Strategy.AGGRESSIVE else default


def min_insync_replicas(configs: Mapping[str, str], rules: Rules) -> int:
    """Return the value that brokers go by: otherwise they could commit what an election here does not count on."""
    return (
        topic_config("", configs).min_insync_replicas if MIN_INSYNC_REPLICAS in configs else rules.min_insync_replicas
    )


def fence(image: MetadataImage, rules: Rules, broker: BrokerRegistration) -> Iterator[Change | None]:
    """Fences a broker that is gone or stopped: it leaves every ISR and leads nothing (CT-6, §9.2)."""
    yield _registered(replace(broker, fenced=True, in_controlled_shutdown=False))
    yield from _remove(image, rules, broker.broker_id, image.index.on_broker(broker.broker_id))


def begin_controlled_shutdown(
    image: MetadataImage, rules: Rules, broker: BrokerRegistration
) -> Iterator[Change | None]:
    """Takes the broker out of ISRs and leaderships; it serves on until its followers know (CT-13)."""
    yield _registered(replace(broker, in_controlled_shutdown=True))
    yield from _remove(image, rules, broker.broker_id, image.index.on_broker(broker.broker_id))


def restart(
    image: MetadataImage, rules: Rules, broker_id: int, *, unclean: bool, missing: Set[TopicPartition] = frozenset()
) -> Iterator[Change | None]:
    """Takes the broker's old process out of ISRs and leaderships, after an unclean stop out of ELRs too (ISR-18). The
    new process has no records of the partitions `missing` (CT-29)."""
    how = Leaves.UNCLEANLY if unclean and rules.eligible_leader_replicas else Leaves.WHOLE
    replicas = image.index.on_broker(broker_id)
    return _remove(image, rules, broker_id, replicas, lambda tp: Leaves.EMPTY if tp in missing else how)


def unfence(image: MetadataImage, rules: Rules, broker: BrokerRegistration) -> Iterator[Change | None]:
    """Lets the broker lead again, and elects leaders where there are none. It joins no ISR by this (§9.2)."""
    active = active_brokers(image) | {broker.broker_id}

    def change(_: TopicPartition, state: PartitionState, now: Situation) -> PartitionState:
        return elect(state, now) if broker.broker_id in state.replicas else state

    yield _registered(replace(broker, fenced=False, in_controlled_shutdown=False, joined=True))
    yield from partition_changes(image, rules, active, image.index.led_by(NO_LEADER), change)


def lose_replicas(
    image: MetadataImage, rules: Rules, broker_id: int, offline: Iterable[OfflineReplica]
) -> Iterator[Change | None]:
    """Takes replicas that the broker cannot read out of leadership, ISR and ELR (CT-27)."""
    named = {
        tp: Leaves.EMPTY if is_gone else Leaves.OFFLINE
        for tp, topic_id, is_gone in offline
        if tp in image.partitions and image.topics[tp.topic].topic_id == topic_id
    }
    return _remove(image, rules, broker_id, named, named.__getitem__)


def withdraw(image: MetadataImage, rules: Rules, broker_id: int, unheard: Set[int]) -> Iterator[Change | None]:
    """Takes `broker_id` out of the ISRs led by brokers that it does not hear, where enough members stay (CT-23)."""

    def change(_: TopicPartition, state: PartitionState, now: Situation) -> PartitionState:
        follows = state.leader in unheard and broker_id in state.isr
        enough = max(LEAST_CANDIDATES, min(now.min_insync_replicas, len(state.replicas)))
        return remove_from_isr(state, broker_id, now) if follows and len(state.isr) > enough else state

    return partition_changes(image, rules, active_brokers(image), image.index.on_broker(broker_id), change)


def _registered(broker: BrokerRegistration) -> Change:
    return Change("broker", broker.broker_id, broker)


def _remove(
    image: MetadataImage,
    rules: Rules,
    broker_id: int,
    replicas: Iterable[TopicPartition],
    how: Callable[[TopicPartition], Leaves] = lambda _: Leaves.WHOLE,
) -> Iterator[Change | None]:
    def change(tp: TopicPartition, state: PartitionState, now: Situation) -> PartitionState:
        return remove_from_isr(state, broker_id, now, how(tp))

    return partition_changes(image, rules, active_brokers(image) - {broker_id}, replicas, change)


def partition_changes(
    image: MetadataImage,
    rules: Rules,
    active: frozenset[int],
    candidates: Iterable[TopicPartition],
    change: Callable[[TopicPartition, PartitionState, Situation], PartitionState],
) -> Iterator[Change | None]:
    """Yields the change that `change` makes to each of `candidates`, or None."""
    situations: dict[str, Situation] = {}
    for tp in candidates:
        if tp.topic not in situations:
            situations[tp.topic] = situation(image, rules, tp.topic, active)
        state = image.partitions[tp]
        changed = change(tp, state, situations[tp.topic])
        yield None if changed is state else Change("partition", tp, changed, image.topics[tp.topic].topic_id)
