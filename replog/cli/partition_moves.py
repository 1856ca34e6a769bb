"""Waiting until a partition is on other brokers, or in another log directory, and showing how far it has got."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from replog.cli.asking import offsets_meanwhile
from replog.cli.nearing import Nearing
from replog.cli.reassignment_plan import assignment_of
from replog.client import Admin, ReplicaInfo
from replog.command.output import note
from replog.command.progress import status
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

LOOK_EVERY_S = 0.5
SEEN_WITHIN_S = 10.0  # how long brokers may take to learn what the controller has done
NOT_MOVING = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
AT_ONCE = 20  # partitions of a plan that move at a time: the rest can still be called off


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
                left = len(waiting) + len(under_way)
                show(f"{len(plan) - left} of {len(plan)} partitions have moved, {len(under_way)} are under way")
    except asyncio.CancelledError:
        if under_way:
            note(f"{len(under_way)} partitions go on moving; see replog partition list-reassignments")
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


async def wait_for_brokers(admin: Admin, tp: TopicPartition, target: Sequence[int], timeout_s: float) -> None:
    """Wait until `tp` has exactly these replicas, all in sync.

    Raises REQUEST_TIMED_OUT while the move goes on; INVALID_REQUEST if somebody has cancelled or redirected it."""

    nearing = Nearing(admin)

    async def how_far() -> str | None:
        if not await admin.list_partition_reassignments([tp]):
            return None
        await nearing.look([tp])
        return await _how_far(admin, tp, target)

    try:
        await _wait(how_far, tp, timeout_s, "list-reassignments", lambda: nearing.why)
    except asyncio.CancelledError:
        note(f"{tp} goes on moving; --cancel instead of --replicas takes that back")
        raise
    deadline = asyncio.get_running_loop().time() + SEEN_WITHIN_S
    while (replicas := (await admin.describe_topic(tp.topic)).partitions[tp.partition].replicas) != tuple(target):
        if asyncio.get_running_loop().time() > deadline:
            raise ErrorCode.INVALID_REQUEST.error(
                f"{tp} is on brokers {_listed(replicas)} and does not move any more: the move was cancelled or changed"
            )
        await asyncio.sleep(LOOK_EVERY_S)


async def wait_for_directory(admin: Admin, tp: TopicPartition, broker_id: int, log_dir: str, timeout_s: float) -> None:
    """Wait until the broker's replica of `tp` is in `log_dir`.

    Raises REQUEST_TIMED_OUT while the move goes on; INVALID_REQUEST if somebody has cancelled or redirected it."""

    async def replicas() -> list[tuple[str, ReplicaInfo]]:
        directories = (await admin.describe_log_dirs([broker_id], [tp.topic]))[broker_id]
        return [(directory.log_dir, info) for directory in directories for of, info in directory.replicas if of == tp]

    async def how_far() -> str | None:
        lags = [info.offset_lag for _, info in await replicas() if info.is_future]
        return f"{tp}: {lags[0]:,} records to go" if lags else None

    await _wait(how_far, tp, timeout_s, "log-dirs")
    places = [place for place, _ in await replicas()]
    if places != [log_dir]:
        raise ErrorCode.INVALID_REQUEST.error(
            f"{tp} is in {', '.join(places) or 'no directory'} and does not move any more: the move was cancelled"
        )


async def _wait(
    how_far: Callable[[], Awaitable[str | None]],
    tp: TopicPartition,
    timeout_s: float,
    command: str,
    why: Callable[[], str] = lambda: "",
) -> None:
    """Show what `how_far` returns until it returns None. Raises REQUEST_TIMED_OUT."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    with status() as show:
        while (line := await how_far()) is not None:
            if asyncio.get_running_loop().time() > deadline:
                raise ErrorCode.REQUEST_TIMED_OUT.error(
                    f"{tp} still moves after {timeout_s:g} s{why()}; see replog partition {command}"
                )
            show(line)
            await asyncio.sleep(LOOK_EVERY_S)


async def _how_far(admin: Admin, tp: TopicPartition, target: Sequence[int]) -> str:
    """Say how far each broker of the target is that is not in sync yet."""
    description = (await admin.describe_topic(tp.topic)).partitions[tp.partition]
    brokers = (await admin.describe_cluster()).brokers
    offsets = await offsets_meanwhile(tp.topic, brokers)
    ends = {broker: its["log_end"] or 0 for (partition, broker), its in offsets.items() if partition == tp.partition}
    end = ends.get(description.leader)
    missing = [broker for broker in target if broker not in description.isr]
    of = f" of {end:,}" if end is not None else ""
    far = [
        f"broker {b} {f'is at offset {ends[b]:,}{of}' if b in ends else 'has reported nothing yet'}" for b in missing
    ]
    return f"{tp}: {', '.join(far) or 'leaving'}; in sync: {_listed(description.isr)}"


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
