"""Waiting for a reassignment, and showing how far it has got."""

import asyncio
from collections.abc import Sequence

from cluster.cli.progress import status
from cluster.cli.replica_offsets import replica_offsets
from replog.client import Admin
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

LOOK_EVERY_S = 0.5
SEEN_WITHIN_S = 10.0  # the brokers hear of what the controller has done


async def wait_for(admin: Admin, tp: TopicPartition, target: Sequence[int], timeout_s: float) -> None:
    """Until `tp` has exactly these replicas, all in sync.

    Raises REQUEST_TIMED_OUT, the move going on; INVALID_REQUEST when somebody has cancelled or redirected it.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    with status() as show:
        while await admin.list_partition_reassignments([tp]):
            if asyncio.get_running_loop().time() > deadline:
                raise ReplogError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{tp} still moves after {timeout_s:g} s, and goes on; see replog partition list-reassignments",
                )
            show(await _how_far(admin, tp, target))
            await asyncio.sleep(LOOK_EVERY_S)
    deadline = asyncio.get_running_loop().time() + SEEN_WITHIN_S
    while (replicas := await _replicas(admin, tp)) != tuple(target):
        if asyncio.get_running_loop().time() > deadline:
            raise ReplogError(
                ErrorCode.INVALID_REQUEST,
                f"{tp} is on brokers {_listed(replicas)} and moves no more: it was cancelled or sent elsewhere",
            )
        await asyncio.sleep(LOOK_EVERY_S)


async def _replicas(admin: Admin, tp: TopicPartition) -> tuple[int, ...]:
    return (await admin.describe_topic(tp.topic)).partitions[tp.partition].replicas


async def _how_far(admin: Admin, tp: TopicPartition, target: Sequence[int]) -> str:
    """How far those of the target are that are not in sync yet."""
    description = (await admin.describe_topic(tp.topic)).partitions[tp.partition]
    offsets = await asyncio.to_thread(replica_offsets, tp.topic, await admin.describe_cluster(), lambda _: None)
    ends = {
        broker: found["log_end"] or 0 for (partition, broker), found in offsets.items() if partition == tp.partition
    }
    end = ends.get(description.leader)
    missing = [broker for broker in target if broker not in description.isr]
    of = f" of {end:,}" if end is not None else ""
    far = [f"broker {b} {f'is at offset {ends[b]:,}{of}' if b in ends else 'has told nothing yet'}" for b in missing]
    return f"{tp}: {', '.join(far) or 'leaving'}; in sync: {_listed(description.isr)}"


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
