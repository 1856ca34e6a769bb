"""A throttle for moves: there before they begin, and taken away once they are done (KIP-73)."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from replog.client import Admin, TopicDescription
from replog.command.output import note
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

SIDES = ("leader", "follower")

Lists = Mapping[str, list[str]]  # the replicas that are throttled, of each side


@asynccontextmanager
async def throttled(admin: Admin, plan: Mapping[TopicPartition, Sequence[int]], rate: int) -> AsyncIterator[None]:
    """Let the brokers that are added copy these partitions with at most `rate` bytes per second, each of them; and let
    each broker that has them send no more.

    Other throttles of the topics stay; rates of the brokers involved are put back to what they were. When the moves
    outlast the wait, or the wait is interrupted, the throttle stays, and a note says how to take it away.
    """
    topics = {name: await admin.describe_topic(name) for name in sorted({tp.topic for tp in plan})}
    lists: dict[str, Lists] = {name: {side: [] for side in SIDES} for name in topics}
    brokers: set[int] = set()
    for tp, target in sorted(plan.items()):
        present = _present(topics[tp.topic], tp)
        # leaders by those that may lead meanwhile, followers by those that come
        lists[tp.topic]["leader"].extend(f"{tp.partition}:{broker}" for broker in present)
        lists[tp.topic]["follower"].extend(f"{tp.partition}:{broker}" for broker in target if broker not in present)
        brokers.update(present, target)
    known = {broker.broker_id: broker.configs for broker in (await admin.describe_cluster()).brokers}
    involved = {broker: known.get(broker, {}) for broker in sorted(brokers)}
    try:
        for broker in involved:
            await admin.alter_broker_configs(broker, {_rate(side): str(rate) for side in SIDES})
        for topic, listed in lists.items():
            await _alter_lists(admin, topic, {side: (listed[side], []) for side in SIDES})
        yield
    except BaseException as error:
        if isinstance(error, ReplogError) and error.code is not ErrorCode.REQUEST_TIMED_OUT:
            await _take_away(admin, lists, involved)
        else:
            _stays(plan, involved)
        raise
    await _take_away(admin, lists, involved)


def _present(topic: TopicDescription, tp: TopicPartition) -> list[int]:
    """The replicas that it has, without those that a move adds which is under way already."""
    if not 0 <= tp.partition < len(topic.partitions):
        raise ReplogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {tp}")
    partition = topic.partitions[tp.partition]
    return [broker for broker in partition.replicas if broker not in partition.adding_replicas]


async def _take_away(admin: Admin, lists: Mapping[str, Lists], involved: Mapping[int, Mapping[str, str]]) -> None:
    for topic, listed in lists.items():
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


def _stays(plan: Iterable[TopicPartition], brokers: Iterable[int]) -> None:
    lists, rates = (
        " ".join(f"--delete-config {side}.replication.throttled.{what}" for side in SIDES)
        for what in ("replicas", "rate")
    )
    moved = sorted(plan)
    commands = [f"replog topic alter --topic {topic} {lists}" for topic in dict.fromkeys(tp.topic for tp in moved)]
    commands += [f"replog broker-config --broker {broker} {rates}" for broker in brokers]
    what = str(moved[0]) if len(moved) == 1 else f"{len(moved)} partitions"
    note("\n  ".join([f"the throttle of {what} stays; remove it when the move is done:", *commands]))
