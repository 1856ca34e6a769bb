"""Moves that come no nearer to their end, and what holds them."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from replog.cli.throttles import by_hand
from replog.client import Admin, TopicDescription
from replog.client.descriptions import PartitionDescription
from replog.command.output import note
from replog.errors import ReplogError
from replog.metadata.values import NO_LEADER
from replog.topic import TopicPartition

LOOK_EVERY_S = 10.0
STILL_S = 30.0  # how long a broker may come no nearer before the user is told, again and again
MEGABYTE = 1_000_000

Coming = Mapping[TopicPartition, PartitionDescription]


@dataclass(frozen=True, slots=True)
class Point:
    """A broker's progress at a time, over all partitions that move to it."""

    at_s: float
    partitions: frozenset[TopicPartition]
    copied: int  # bytes that the broker has
    led: int  # bytes that the leaders have

    def is_nearer(self, before: "Point") -> bool:
        return self.partitions != before.partitions or self.led - self.copied < before.led - before.copied


class Nearing:
    """Looks at moves now and then, and tells the user what holds them."""

    def __init__(self, admin: Admin) -> None:
        self._held: dict[int, str] = {}  # each broker that comes no nearer, and why
        self._admin = admin
        self._look_at_s = 0.0
        self._before: dict[int, Point] = {}

    async def look(self, moves: Collection[TopicPartition]) -> None:
        """Say what holds the moves, if the last look was long ago and brokers answer. Deleted topics are left out."""
        if (now_s := asyncio.get_running_loop().time()) >= self._look_at_s:
            self._look_at_s = now_s + LOOK_EVERY_S
            with suppress(ReplogError):
                await self._look(moves, now_s)

    async def _look(self, moves: Collection[TopicPartition], now_s: float) -> None:
        brokers = (await self._admin.describe_cluster()).brokers
        topics = [t for t in await self._admin.describe_topics() if t.topic in {tp.topic for tp in moves}]
        coming: dict[int, dict[TopicPartition, PartitionDescription]] = defaultdict(dict)
        for tp, partition in ((TopicPartition(t.topic, p.partition), p) for t in topics for p in t.partitions):
            for broker in set(partition.adding_replicas) - set(partition.isr) if tp in moves else ():
                coming[broker][tp] = partition
        gone = {broker.broker_id for broker in brokers if broker.fenced}
        leaders = {partition.leader for its in coming.values() for partition in its.values()}
        sizes = await self._sizes((leaders | coming.keys()) - gone - {NO_LEADER}, topics)
        self._held = {broker: words for broker, words in self._held.items() if broker in coming}
        for broker, its in sorted(coming.items()):
            point, before = _point(broker, its, sizes, now_s), self._before.get(broker)
            if broker in gone:
                self._before.pop(broker, None)
                waits = f"broker {broker}, to which {_named(its)} should move, does not serve"
                self._tell(broker, f"{waits}: start it, or move elsewhere")
            elif point is not None and (before is None or point.is_nearer(before)):
                self._before[broker] = point
                self._held.pop(broker, None)
            elif point is not None and before is not None and now_s - before.at_s >= STILL_S:
                self._before[broker] = point  # otherwise the user would be told at every look
                self._tell(broker, _why(broker, its, before, point) + by_hand(topics, brokers, "; "))

    def _tell(self, broker: int, words: str) -> None:
        if self._held.get(broker) != words:
            self._held[broker] = words
            note(words)

    @property
    def why(self) -> str:
        """The reasons that hold the moves, in words; or ""."""
        return "".join(f"; {words}" for words in self._held.values())

    async def _sizes(
        self, brokers: Collection[int], topics: Collection[TopicDescription]
    ) -> dict[tuple[int, TopicPartition], int]:
        names = [topic.topic for topic in topics]
        asked = (self._admin.describe_log_dirs([broker], names) for broker in brokers)
        sizes = {}
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, ReplogError):
                continue
            if isinstance(answer, BaseException):
                raise answer
            for broker, directories in answer.items():
                for tp, info in (replica for directory in directories for replica in directory.replicas):
                    if not info.is_future:
                        sizes[broker, tp] = info.size
        return sizes


def _point(broker: int, its: Coming, sizes: Mapping[tuple[int, TopicPartition], int], now_s: float) -> Point | None:
    """Return the broker's progress; None if a leader does not say how much it has."""
    led = [sizes.get((partition.leader, tp)) for tp, partition in its.items()]
    if None in led:
        return None
    copied = sum(sizes.get((broker, tp), 0) for tp in its)
    return Point(now_s, frozenset(its), copied, sum(filter(None, led)))


def _why(broker: int, its: Coming, before: Point, now: Point) -> str:
    since_s = now.at_s - before.at_s
    what = "copied nothing" if now.copied <= before.copied else "come no nearer"
    written = max(0, now.led - before.led) / since_s  # too low if records were deleted meanwhile
    throttle = max(partition.throttle for partition in its.values())
    words = (
        f"broker {broker} has {what} for {since_s:.0f} s: {written / MEGABYTE:.1f} MB/s are written to {_named(its)}"
    )
    if throttle and written * 1.25 > throttle:
        enough = ceil(2 * written / MEGABYTE) * MEGABYTE
        return (
            f"{words}, and the throttle is {throttle / MEGABYTE:g} MB/s; the same command with --throttle {enough} "
            "would do"
        )
    return f"{words}; look into the logs of the broker and of the leaders"


def _named(partitions: Collection[TopicPartition]) -> str:
    first = min(partitions)
    return str(first) if len(partitions) == 1 else f"{len(partitions)} partitions such as {first}"
