"""Moves to other brokers or log directories: ordered, waited for, told of when they come no nearer to their end; and a
broker that leaves the cluster for good, without loss."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from replog.cli.asking import by_hand, each_asked, replicas_of
from replog.cli.reassignment_plan import Assignment, Planner, assignment_of
from replog.client import Admin, ReplicaInfo, TopicDescription
from replog.client.descriptions import PartitionDescription
from replog.command.output import note, status
from replog.errors import ErrorCode, InvalidError, ReplogError
from replog.metadata.values import NO_LEADER
from replog.topic import TopicPartition

LOOK_EVERY_S = 0.5
SEEN_WITHIN_S = 10.0  # how long brokers may take to learn what the controller has done
NOT_MOVING = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
AT_ONCE = 20  # partitions of a plan that move at a time: the rest can still be called off
NEARING_EVERY_S = 10.0
STILL_S = 30.0  # how long a broker may come no nearer before the user is told, again and again
MEGABYTE = 1_000_000
CORDONED = "cordoned.log.dirs"
ROUNDS = 100  # looks at what is left: brokers may learn a moment later that moves have ended


async def order(admin: Admin, plan: Mapping[TopicPartition, Sequence[int]], throttle: int = 0) -> set[TopicPartition]:
    """Start all of these moves, with at most `throttle` bytes a second to a broker; 0: any number. Return partitions
    that do not exist.

    Raises the first error of the controller, with how many partitions it refused."""
    errors = await admin.alter_partition_reassignments(plan, throttle)
    gone = {tp for tp, error in errors.items() if error and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    refused = [error for tp, error in errors.items() if error is not None and tp not in gone]
    if refused:
        others = f" (refused: {len(refused)} of {len(plan)} partitions; the others move)" if len(plan) > 1 else ""
        raise ReplogError(refused[0].code, refused[0].message + others)
    return gone


async def cancel_moves(admin: Admin, partitions: Iterable[TopicPartition]) -> int:
    """Cancel moves, and return how many. Raises the first error, which says why a move cannot be cancelled."""
    errors = (await admin.alter_partition_reassignments(dict.fromkeys(partitions))).values()
    for error in errors:
        if error is not None and error.code not in NOT_MOVING:
            raise error
    return sum(error is None for error in errors)


async def carry_out(
    admin: Admin, plan: Mapping[TopicPartition, Sequence[int]], timeout_s: float, throttle: int = 0
) -> set[TopicPartition]:
    """Move partitions, some at a time, until all moves have ended, and say what holds them. Return partitions that do
    not exist.

    Raises REQUEST_TIMED_OUT when none has ended for `timeout_s`, while the moves go on; and as `order`."""
    loop, nearing = asyncio.get_running_loop(), Nearing(admin)
    waiting, under_way, gone = sorted(plan), set[TopicPartition](), set[TopicPartition]()
    deadline = loop.time() + timeout_s
    try:
        with status() as show:
            while waiting or under_way:
                if next_ones := waiting[: AT_ONCE - len(under_way)]:
                    del waiting[: len(next_ones)]
                    under_way.update(next_ones)
                    gone |= await order(admin, {tp: plan[tp] for tp in next_ones}, throttle)
                ended = under_way - (await admin.list_partition_reassignments(sorted(under_way))).keys()
                under_way -= ended
                if ended:
                    deadline = loop.time() + timeout_s
                elif loop.time() > deadline:
                    raise ErrorCode.REQUEST_TIMED_OUT.error(
                        f"no partition has come to its new brokers for {timeout_s:g} s; {len(under_way)} still move, "
                        f"such as {min(under_way)}, and {len(waiting)} wait{nearing.why}; see replog partition "
                        "list-reassignments, and run this again to go on"
                    )
                else:
                    await nearing.look(under_way)
                    await asyncio.sleep(LOOK_EVERY_S)
                done = len(plan) - len(waiting) - len(under_way)
                if len(plan) == 1 and under_way:
                    show(await _how_far(admin, *next(iter(plan.items()))))
                else:
                    show(f"{done} of {len(plan)} partitions have moved, {len(under_way)} are under way")
    except asyncio.CancelledError:
        if under_way:
            note(f"{len(under_way)} partitions go on moving, such as {min(under_way)}; --cancel takes moves back")
        raise
    if gone:
        note(f"{len(gone)} partitions are not there, such as {min(gone)}")
    return gone


async def wait_until_known(admin: Admin, plan: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Wait until brokers know that the moves have ended. Raises INVALID_REQUEST if somebody has changed one."""
    deadline = asyncio.get_running_loop().time() + SEEN_WITHIN_S
    while True:
        there = assignment_of(await admin.describe_topics())
        elsewhere = [tp for tp, replicas in plan.items() if there.get(tp, replicas) != tuple(replicas)]
        if not elsewhere:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise ErrorCode.INVALID_REQUEST.error(
                f"{len(elsewhere)} of {len(plan)} partitions, such as {min(elsewhere)}, are not on the brokers of the "
                "plan and do not move any more: their moves were cancelled or changed"
            )
        await asyncio.sleep(LOOK_EVERY_S)


async def wait_for_directory(admin: Admin, tp: TopicPartition, broker_id: int, log_dir: str, timeout_s: float) -> None:
    """Wait until the broker's replica of `tp` is in `log_dir`.

    Raises REQUEST_TIMED_OUT while the move goes on; INVALID_REQUEST if somebody has cancelled or redirected it."""

    async def replicas() -> list[tuple[str, ReplicaInfo]]:
        directories = (await admin.describe_log_dirs([broker_id], [tp.topic]))[broker_id]
        return [(directory.log_dir, info) for directory in directories for of, info in directory.replicas if of == tp]

    deadline = asyncio.get_running_loop().time() + timeout_s
    with status() as show:
        while lags := [info.offset_lag for _, info in await replicas() if info.is_future]:
            if asyncio.get_running_loop().time() > deadline:
                raise ErrorCode.REQUEST_TIMED_OUT.error(
                    f"{tp} still moves after {timeout_s:g} s; see replog partition log-dirs"
                )
            show(f"{tp}: {lags[0]:,} records to go")
            await asyncio.sleep(LOOK_EVERY_S)
    places = [place for place, _ in await replicas()]
    if places != [log_dir]:
        raise ErrorCode.INVALID_REQUEST.error(
            f"{tp} is in {', '.join(places) or 'no directory'} and does not move any more: the move was cancelled"
        )


async def _how_far(admin: Admin, tp: TopicPartition, target: Sequence[int]) -> str:
    """Say how far each broker of the target is that is not in sync yet."""
    description = (await admin.describe_topic(tp.topic)).partitions[tp.partition]
    brokers = (await admin.describe_cluster()).brokers
    replicas = await replicas_of(admin, tp.topic, brokers)
    ends = {b: replica.log_end_offset for (partition, b), replica in replicas.items() if partition == tp.partition}
    end = ends.get(description.leader)
    missing = [broker for broker in target if broker not in description.isr]
    of = f" of {end:,}" if end is not None else ""
    far = [
        f"broker {b} {f'is at offset {ends[b]:,}{of}' if b in ends else 'has reported nothing yet'}" for b in missing
    ]
    return f"{tp}: {', '.join(far) or 'leaving'}; in sync: {','.join(map(str, description.isr)) or 'none'}"


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
            self._look_at_s = now_s + NEARING_EVERY_S
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
                self._report(broker, f"{waits}: start it, or move elsewhere")
            elif point is not None and (before is None or point.is_nearer(before)):
                self._before[broker] = point
                self._held.pop(broker, None)
            elif point is not None and before is not None and now_s - before.at_s >= STILL_S:
                self._before[broker] = point  # otherwise the user would be told at every look
                self._report(broker, _why(broker, its, before, point) + by_hand(topics, brokers, "; "))

    def _report(self, broker: int, words: str) -> None:
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
        answers, _ = await each_asked(brokers, lambda broker: self._admin.describe_log_dirs([broker], names))
        return {
            (broker, tp): info.size
            for broker, answer in answers.items()
            for directory in answer[broker]
            for tp, info in directory.replicas
            if not info.is_future
        }


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


async def decommission(
    admin: Admin, broker_id: int, timeout_s: float, say: Callable[[str], None], throttle: int = 0
) -> None:
    """Move all replicas away, wait until the broker stops, and forget it. A repeated call goes on where one was
    interrupted. Raises BROKER_ID_NOT_REGISTERED; INVALID_REPLICA_ASSIGNMENT if no broker is left to take a replica;
    REQUEST_TIMED_OUT; INVALID_REQUEST if somebody else lets the broker `stay`."""
    await targets_without(admin, broker_id)  # raises before anything is changed
    await admin.alter_broker_configs(broker_id, {CORDONED: "*"})
    say(f"broker {broker_id} gets no new replicas from now on ({CORDONED}=*)")
    try:
        await _empty(admin, broker_id, timeout_s, say, throttle)
        await forget_when_stopped(admin, broker_id, timeout_s, say)
    except _Stays:
        raise
    except BaseException:
        say(
            f"broker {broker_id} still gets no new replicas, and moves that have begun go on; the same command goes on "
            f"from there, and replog broker decommission {broker_id} --cancel takes that back"
        )
        raise


class _Stays(InvalidError):
    """INVALID_REQUEST: somebody else has cancelled the decommission."""


async def _check_leaving(admin: Admin, broker_id: int) -> None:
    """Ask the controller, since brokers may know it later. Raises _Stays."""
    if CORDONED not in await admin.alter_broker_configs(broker_id, {}, validate_only=True):
        raise _Stays(ErrorCode.INVALID_REQUEST, f"broker {broker_id} stays: its decommission was cancelled meanwhile")


async def stay(admin: Admin, broker_id: int) -> int:
    """Let the broker stay: it gets new replicas again, and moves away from it are cancelled. Return how many."""
    await admin.alter_broker_configs(broker_id, {}, [CORDONED])
    moves = await admin.list_partition_reassignments()
    away = [tp for tp, move in moves.items() if broker_id in move.removing_replicas]
    return await cancel_moves(admin, away)


async def _empty(admin: Admin, broker_id: int, timeout_s: float, say: Callable[[str], None], throttle: int) -> None:
    for _ in range(ROUNDS):
        targets = await targets_without(admin, broker_id)
        if not targets:
            break
        say(f"moving {len(targets)} partitions to other brokers")
        await carry_out(admin, targets, timeout_s, throttle)
        await asyncio.sleep(LOOK_EVERY_S)
        await _check_leaving(admin, broker_id)
    else:
        raise ErrorCode.REQUEST_TIMED_OUT.error(
            f"broker {broker_id} still has replicas of {len(targets)} partitions, such as {min(targets)}: their moves "
            "were cancelled or changed; see replog partition list-reassignments, and run this again"
        )


async def targets_without(admin: Admin, broker_id: int) -> Assignment:
    """Return new replicas for each partition on this broker; some may be on the way there already."""
    topics = await admin.describe_topics()
    brokers = (await admin.describe_cluster()).brokers
    targets = assignment_of(topics, brokers, broker_id)
    targets |= Planner(targets, brokers).leave([broker_id])
    held = [(topic.topic, p.partition) for topic in topics for p in topic.partitions if broker_id in p.replicas]
    return {tp: targets[tp] for tp in (TopicPartition(*each) for each in held)}


async def forget_when_stopped(admin: Admin, broker_id: int, timeout_s: float, say: Callable[[str], None]) -> None:
    """Ask the controller until it forgets the broker. Only it knows that no replica is left: this user may not be
    allowed to describe every topic."""
    deadline, asked = asyncio.get_running_loop().time() + timeout_s, False
    while True:
        try:
            return await admin.unregister_broker(broker_id)
        except ReplogError as error:
            if error.code is not ErrorCode.INVALID_REQUEST:  # says that the broker is unfenced
                raise
        await _check_leaving(admin, broker_id)
        if not asked:
            say(f"broker {broker_id} has no replicas any more; stop its process now, and for good")
            asked = True
        if asyncio.get_running_loop().time() > deadline:
            raise ErrorCode.REQUEST_TIMED_OUT.error(
                f"broker {broker_id} has no replicas, but runs; stop it, then: replog broker forget {broker_id}"
            )
        await asyncio.sleep(LOOK_EVERY_S)
