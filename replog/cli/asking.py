"""Questions to a cluster, and what commands say of throttles and of partitions without a leader.

The client is imported only when a question is asked, so that `--help` is quick."""

from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeVar

from replog.cli.options import bootstrap_server
from replog.command.output import note
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

if TYPE_CHECKING:
    from replog.client.descriptions import (
        BrokerDescription,
        LogEnds,
        ReplicaDescription,
        ReplicaLogEnd,
        TopicDescription,
    )

ADMIN_TIMEOUT_MS = 10_000  # a broker may take seconds for thousands of replicas

T = TypeVar("T")
SIDES = ("leader", "follower")
SHOWN = 5  # topics or brokers on a line


def ask(bootstrap: str | None, question: Callable[[Any], Awaitable[T]], controller: str | None = None) -> T:
    """Return the answer of `question(admin)`, which asks brokers, or only `controller` if that is given."""
    import asyncio

    from replog.client import Admin
    from replog.server import logging

    logging.configure_command()

    async def run() -> T:
        asked = controller or bootstrap_server(bootstrap)
        async with Admin(asked, timeout_ms=ADMIN_TIMEOUT_MS, to_controller=controller is not None) as admin:
            return await question(admin)

    return asyncio.run(run())


async def not_led(admin: Any, topic: str, led: set[tuple[int, int]]) -> str:
    """Say how many partitions of a new topic have a leader with its replica; "" if all have.

    `led` keeps those partitions and leaders between calls, otherwise every call would describe all of them again."""
    try:
        partitions = (await admin.describe_topic(topic)).partitions
    except ReplogError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return "no broker knows it"
    wanted = {(each.partition, each.leader) for each in partitions}
    led &= wanted
    led |= wanted & await _replicas(admin, topic, {leader for _, leader in wanted - led})
    return f"{len(led)} of {len(wanted)} partitions are led" if led < wanted else ""


async def not_deleted(admin: Any, topic: str, topic_id: bytes) -> str:
    """Say that brokers know a deleted topic, and how many replicas are left; "" if the one asked does not know it."""
    try:
        description = await admin.describe_topic(topic)
    except ReplogError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return ""
    if description.topic_id != topic_id:
        return ""
    left = await _replicas(admin, topic, {broker for each in description.partitions for broker in each.replicas})
    return f"brokers know it, and {len(left)} replicas are left"


async def _replicas(admin: Any, topic: str, brokers: set[int]) -> Set[tuple[int, int]]:
    """Return the replicas of the topic on these brokers, as (partition, broker)."""
    asked = [broker for broker in (await admin.describe_cluster()).brokers if broker.broker_id in brokers]
    return (await replicas_of(admin, topic, asked)).keys()


async def topics_named(admin: Any, topic: str | None) -> Sequence[Any]:
    """Describe the topic, or all topics."""
    return await admin.describe_topics() if topic is None else [await admin.describe_topic(topic)]


async def named_partitions(admin: Any, topic: str | None, numbers: Sequence[int] | None) -> list[TopicPartition]:
    """Return these partitions of the topic, or all of it, or all there are. Raises UNKNOWN_TOPIC_OR_PARTITION,
    INVALID_REQUEST."""
    if topic is None and numbers:
        raise ErrorCode.INVALID_REQUEST.error("--partition needs --topic")
    there = [TopicPartition(t.topic, p.partition) for t in await topics_named(admin, topic) for p in t.partitions]
    if not numbers:
        return there
    wanted = [TopicPartition(str(topic), number) for number in dict.fromkeys(numbers)]
    if unknown := [tp for tp in wanted if tp not in there]:
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(
            f"topic {topic!r} has partitions 0 to {len(there) - 1}, not {unknown[0].partition}"
        )
    return wanted


async def partitions_of(bootstrap: str, topic: str, wanted: int | None) -> list[TopicPartition]:
    """Return the topic's partitions, or the one wanted. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    from replog.client import Admin

    async with Admin(bootstrap, timeout_ms=ADMIN_TIMEOUT_MS) as admin:
        return await named_partitions(admin, topic, None if wanted is None else [wanted])


async def each_asked(
    brokers: Iterable[int], question: Callable[[int], Awaitable[T]]
) -> tuple[dict[int, T], dict[int, ReplogError]]:
    """Ask all of these brokers at once. Return the answers, and why the others gave none."""
    import asyncio

    answers: dict[int, T] = {}
    errors: dict[int, ReplogError] = {}

    async def asked(broker: int) -> None:
        try:
            answers[broker] = await question(broker)
        except ReplogError as error:
            errors[broker] = error

    await asyncio.gather(*map(asked, brokers))
    return answers, errors


async def replicas_of(
    admin: Any, topic: str, brokers: Iterable["BrokerDescription"], complain: Callable[[str], None] = lambda _: None
) -> "dict[tuple[int, int], ReplicaDescription]":
    """Ask brokers for their replicas of the topic, by (partition, broker). `complain` hears who does not answer."""
    serving = sorted(broker.broker_id for broker in brokers if not broker.fenced)
    answers, errors = await each_asked(serving, lambda broker: admin.describe_replicas(broker, topic))
    for broker, error in errors.items():
        complain(f"no offsets from broker {broker}: {error.message}")
    return {
        (tp.partition, broker): replica for broker, told in answers.items() for tp, replica in told.replicas.items()
    }


def throttles(topics: Iterable["TopicDescription"], brokers: Iterable["BrokerDescription"]) -> dict[str, Any]:
    """Return lists of throttled replicas by topic, rates by broker, and the rate of each partition that moves."""
    topics = list(topics)
    return {
        "topics": _set({topic.topic: topic.configs for topic in topics}, "replication.throttled.replicas"),
        "brokers": _set({str(broker.broker_id): broker.configs for broker in brokers}, "replication.throttled.rate"),
        "moves": {f"{t.topic}-{p.partition}": p.throttle for t in topics for p in t.partitions if p.throttle},
    }


def _set(configs: dict[str, Any], name: str) -> dict[str, dict[str, str]]:
    settings = {
        who: {side: its[f"{side}.{name}"] for side in SIDES if f"{side}.{name}" in its} for who, its in configs.items()
    }
    return {who: its for who, its in settings.items() if its}


def by_hand(topics: Iterable["TopicDescription"], brokers: Iterable["BrokerDescription"], before: str = "") -> str:
    """Say what is throttled by hand, after `before`; "" if nothing is. Lists and rates are both named, as one works
    only with the other, and a broker may have been started with a rate."""
    known = throttles(topics, brokers)
    rates = [f"{who} ({', '.join(' '.join(rate) for rate in its.items())})" for who, its in known["brokers"].items()]
    named = [
        f"{what} {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"
        for what, names in (("replicas of topics", list(known["topics"])), ("bytes a second of brokers", rates))
        if names
    ]
    return f"{before}throttled by hand: {'; '.join(named)}" if named else ""


async def log_ends_of(admin: Any, partitions: Sequence[TopicPartition]) -> "dict[TopicPartition, LogEnds]":
    """Ask what replicas without a leader said of their logs. Return {} if the controller cannot say, like 0.1.0's."""
    try:
        return await admin.describe_log_ends(partitions) if partitions else {}
    except ReplogError as error:
        note(f"how far the replicas go is not known: {error}")
        return {}


def how_far(replica: "ReplicaLogEnd") -> str:
    had = ", had all acknowledged records when it stopped" if replica.had_everything else ""
    who = f"  broker {replica.broker_id}{'' if replica.is_live else ', not alive'}{had}"
    if replica.is_offline:
        return f"{who}: is offline, its files have failed; see the broker's log"
    if replica.end_offset is None:
        return f"{who}: has not said how far it goes"
    if replica.is_missing:
        return f"{who}: does not find it; if a disk is not mounted, stop this broker, mount it, and start it again"
    if replica.last_epoch == -1:
        deleted = f"all its records, up to offset {replica.end_offset}, are deleted"
        return f"{who}: {deleted if replica.end_offset else 'has no records'}"
    return f"{who}: up to offset {replica.end_offset}, last leader epoch {replica.last_epoch}"


def at_stake(log_ends: "LogEnds") -> str:
    """Say how far each replica goes, who would be elected now, and what would be lost by that."""
    known, chosen = "\n".join(map(how_far, log_ends.replicas)), log_ends.furthest
    if chosen is None:
        return f"{known}\n  nobody can be elected: no live replica has said how far it goes"
    lost = [text for replica in log_ends.replicas if (text := _lost(replica, chosen))]
    return f"{known}\n  broker {chosen.broker_id} would be elected; lost would be {', and '.join(lost) or 'nothing'}"


def _lost(replica: "ReplicaLogEnd", chosen: "ReplicaLogEnd") -> str:
    """Say which records `replica` has and `chosen` has not; "" if none."""
    if replica.is_missing:
        return f"what may be on a disk of broker {replica.broker_id} that is not there"
    end, kept = replica.log_end, chosen.log_end
    if end is None or kept is None:
        return f"what only broker {replica.broker_id} has"
    if kept.covers(end):
        return ""
    more = f"{end.end_offset - kept.end_offset} records from offset {kept.end_offset} on"
    later = f"what broker {replica.broker_id} has of later leader epochs"
    return f"{more}, which broker {replica.broker_id} has" if end.last_epoch == kept.last_epoch else later
