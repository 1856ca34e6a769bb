"""A throttle for one move: there before it begins, and taken away once it is done (KIP-73)."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from replog.client import Admin
from replog.command.output import note
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

SIDES = ("leader", "follower")


@asynccontextmanager
async def throttled(admin: Admin, tp: TopicPartition, target: Sequence[int], rate: int) -> AsyncIterator[None]:
    """Let the brokers that are added copy `tp` with at most `rate` bytes per second, all of them and all its leaders.

    Other throttles of the topic stay; rates of the brokers involved are put back to what they were. When the move
    outlasts the wait, or the wait is interrupted, the throttle stays, and a note says how to take it away.
    """
    description = await admin.describe_topic(tp.topic)
    if not 0 <= tp.partition < len(description.partitions):
        raise ReplogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {tp}")
    partition = description.partitions[tp.partition]
    adding = partition.adding_replicas  # by a move that is under way already
    present = [broker for broker in partition.replicas if broker not in adding]
    listed = {  # leaders by those that may lead meanwhile, followers by those that come
        "leader": [f"{tp.partition}:{broker}" for broker in present],
        "follower": [f"{tp.partition}:{broker}" for broker in target if broker not in present],
    }
    known = {broker.broker_id: broker.configs for broker in (await admin.describe_cluster()).brokers}
    involved = {broker: known.get(broker, {}) for broker in sorted({*present, *target})}
    for broker in involved:
        await admin.alter_broker_configs(broker, {_rate(side): str(rate) for side in SIDES})
    await _alter_lists(admin, tp.topic, {side: (listed[side], []) for side in SIDES})
    try:
        yield
    except BaseException as error:
        if isinstance(error, ReplogError) and error.code is not ErrorCode.REQUEST_TIMED_OUT:
            await _take_away(admin, tp.topic, listed, involved)
        else:
            _stays(tp, involved)
        raise
    await _take_away(admin, tp.topic, listed, involved)


async def _take_away(
    admin: Admin, topic: str, listed: Mapping[str, list[str]], involved: Mapping[int, Mapping[str, str]]
) -> None:
    await _alter_lists(admin, topic, {side: ([], listed[side]) for side in SIDES})
    for broker, before in involved.items():
        rates = [_rate(side) for side in SIDES]
        kept = {name: before[name] for name in rates if name in before}
        await admin.alter_broker_configs(broker, kept, [name for name in rates if name not in before])


async def _alter_lists(admin: Admin, topic: str, changes: Mapping[str, tuple[list[str], list[str]]]) -> None:
    """Add and remove entries of each side's list; `*` names them all already."""
    configs = (await admin.describe_topic(topic)).configs
    new = {}
    for side, (added, removed) in changes.items():
        name = f"{side}.replication.throttled.replicas"
        before = configs.get(name, "")
        if before != "*":
            new[name] = _changed(before, added, removed)
    empty = [name for name, replicas in new.items() if not replicas]
    await admin.alter_topic_configs(topic, {name: new[name] for name in new if new[name]}, empty)


def _changed(replicas: str, added: Iterable[str], removed: Iterable[str]) -> str:
    entries = dict.fromkeys([*filter(None, replicas.split(",")), *added])
    return ",".join(entry for entry in entries if entry not in set(removed))


def _rate(side: str) -> str:
    return f"{side}.replication.throttled.rate"


def _stays(tp: TopicPartition, brokers: Iterable[int]) -> None:
    lists, rates = (
        " ".join(f"--delete-config {side}.replication.throttled.{what}" for side in SIDES)
        for what in ("replicas", "rate")
    )
    commands = [f"replog topic alter --topic {tp.topic} {lists}"]
    commands += [f"replog broker-config --broker {broker} {rates}" for broker in brokers]
    note("\n  ".join([f"the throttle of {tp} stays; remove it when the move is done:", *commands]))
