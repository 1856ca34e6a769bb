"""Brokers with two log directories, and replicas that move between them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replog.demo.traffic import read_back
from replog.errors import ErrorCode, ReplogError
from replog.log.log import Log
from replog.server.broker.disks import moves
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import TP, InProcessCluster, batch, eventually

SMALL = {"segment_bytes": "5000"}


def disks(cluster: InProcessCluster, broker_id: int) -> tuple[Path, Path]:
    return cluster.directory / f"disk-a-{broker_id}", cluster.directory / f"disk-b-{broker_id}"


async def start(cluster: InProcessCluster, *broker_ids: int, **overrides: object) -> None:
    for broker_id in broker_ids:
        await cluster.start_broker(broker_id, log_dirs=disks(cluster, broker_id), **overrides)


async def begin(cluster: InProcessCluster, count: int, **configs: str) -> None:
    """As `cluster.begin`, with two directories each."""
    await start(cluster, *range(1, count + 1))
    await cluster.create_topic("t", replication_factor=count, **configs)


async def move(cluster: InProcessCluster, broker_id: int, to: Path, tp: TopicPartition = TP) -> ReplogError | None:
    async with cluster.admin() as admin:
        return (await admin.alter_replica_log_dirs(broker_id, {tp: str(to)}))[tp]


def place(cluster: InProcessCluster, broker_id: int, tp: TopicPartition = TP) -> Path:
    return cluster.log(broker_id, tp).directory.parent


def other(cluster: InProcessCluster, broker_id: int) -> Path:
    """The directory where the replica is not."""
    one, two = disks(cluster, broker_id)
    return two if place(cluster, broker_id) == one else one


def future(cluster: InProcessCluster, broker_id: int) -> Log | None:
    logs = cluster.brokers[broker_id].logs
    assert logs is not None
    return logs.future(TP)


async def under_way(cluster: InProcessCluster, broker_id: int) -> tuple[Path, Log]:
    """A move that goes `slowly` and has copied something: where to, and the copy."""
    target = other(cluster, broker_id)
    assert await move(cluster, broker_id, target) is None
    copy = future(cluster, broker_id)
    assert copy is not None
    await eventually(lambda: copy.log_end_offset >= 20)
    return target, copy


async def one_replica(cluster: InProcessCluster, batches: int) -> None:
    """Of TP, on broker 1."""
    await begin(cluster, 1)
    await fill(cluster, batches)


async def fill(cluster: InProcessCluster, batches: int = 40) -> None:
    for number in range(batches):
        assert (await cluster.produce(TP, batch(b"%d" % number + bytes(300), b"second")))[0] is ErrorCode.NONE


@asynccontextmanager
async def load(cluster: InProcessCluster) -> AsyncIterator[list[bytes]]:
    """Produces without a pause; yields what was acknowledged."""
    acknowledged: list[bytes] = []

    async def produce() -> None:
        number = 0
        while True:
            value = b"load %d " % number + bytes(200)
            number += 1
            try:
                error, _, _ = await cluster.produce(TP, batch(value))
            except ReplogError:
                continue
            if error is ErrorCode.NONE:
                acknowledged.append(value)

    task = asyncio.create_task(produce())
    try:
        yield acknowledged
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def caught_up(cluster: InProcessCluster, *broker_ids: int) -> None:
    def ends() -> list[int]:
        return [cluster.log(broker_id, TP).log_end_offset for broker_id in broker_ids]

    await eventually(lambda: len(set(ends())) == 1, what=ends)


async def values(cluster: InProcessCluster) -> list[bytes]:
    leader = cluster.brokers[cluster.leader(TP)]
    return [value for *_, value in await read_back(leader.address, "t", 1, lambda _: None)]


def held_back(cluster: InProcessCluster, broker_id: int) -> Callable[[], None]:
    """The flushes of the directory where its replica is wait until the function returned is called."""
    logs = cluster.brokers[broker_id].logs
    assert logs is not None
    (home,) = (directory for directory in logs.directories if TP in directory.logs)
    ask, asked = home.on_flush_due, list[tuple[TopicPartition, Log]]()
    home.on_flush_due = lambda tp, log: asked.append((tp, log))

    def go_on() -> None:
        home.on_flush_due = ask
        for tp, log in asked:
            ask(tp, log)

    return go_on


async def slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Moves copy a batch or two at a time, with pauses, until the function returned is called."""
    go = asyncio.Event()
    advance = moves.ReplicaMoves._advance

    async def pausing(self: moves.ReplicaMoves, tp: TopicPartition, underway: moves._Move) -> bool:
        if not go.is_set():
            await asyncio.sleep(0.02)
            if underway.replica.log.log_end_offset >= 20:
                return False
        return await advance(self, tp, underway)

    monkeypatch.setattr(moves, "SLICE_BYTES", 500)
    monkeypatch.setattr(moves.ReplicaMoves, "_advance", pausing)
    return go.set
