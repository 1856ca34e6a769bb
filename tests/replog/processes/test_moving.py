"""Partitions move between real brokers, moves are redirected and cancelled, brokers are killed with kill -9 on the way,
all of it under load: no acknowledged record is lost or doubled, and the replicas end where they were sent, the same
bytes on each (CT-14, CT-15, CT-16, CT-17).
"""

import asyncio
import random
import time
from collections.abc import Iterator

import pytest

from replog.client import Admin, Producer
from replog.demo.acknowledged import Acknowledged, compare
from replog.demo.traffic import read_back
from replog.local_cluster.local_cluster import LocalCluster
from replog.topic import TopicPartition
from tests.replog.processes.test_kill import PARTITIONS, _log_bytes, _produce_until

pytestmark = pytest.mark.processes

BROKERS = (1, 2, 3, 4)
STEPS = 8
BALLAST = 8  # records of a partition that make copying take its time
BALLAST_BYTES = 900_000
SETTLED_S = 120.0


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    running = LocalCluster(tmp_path_factory.mktemp("four"), brokers=len(BROKERS)).up()
    try:
        yield running
    finally:
        killed = running.down()
    assert killed == []


async def _load(cluster: LocalCluster, topic: str, note: Acknowledged) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for number in range(BALLAST * PARTITIONS):
            value = b"%d " % number + bytes(BALLAST_BYTES)
            stored = await (await producer.send(topic, value, partition=number % PARTITIONS))
            note.add(stored.partition, stored.offset, value)


async def _move_about(cluster: LocalCluster, admin: Admin, topic: str, chance: random.Random) -> list[str]:
    """Moves, redirections, cancels and kills by chance; what was done."""
    story = []
    for _ in range(STEPS):
        tp = TopicPartition(topic, chance.randrange(PARTITIONS))
        target = None if chance.random() < 0.25 else chance.sample(BROKERS, chance.choice([2, 3, 3]))
        (error,) = (await admin.alter_partition_reassignments({tp: target})).values()
        story.append(f"{tp} to {target}{f' refused: {error.code.name}' if error else ''}")
        await asyncio.sleep(chance.uniform(0.0, 0.15))
        if chance.random() < 0.4:
            broker = chance.choice(BROKERS)
            await asyncio.to_thread(cluster.kill, broker)
            await asyncio.sleep(chance.uniform(0.0, 0.3))
            await asyncio.to_thread(cluster.start, broker)
            story.append(f"{broker} killed and started")
    return story


async def _settled(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    """Nothing moves, and every replica is in sync."""
    async with asyncio.timeout(SETTLED_S):
        while await admin.list_partition_reassignments():
            await asyncio.sleep(0.1)
    await asyncio.to_thread(cluster.wait_for_full_isr, topic)


async def _run(cluster: LocalCluster, topic: str, chance: random.Random) -> dict[int, tuple[int, ...]]:
    """Where the partitions are in the end."""
    note, stopped = Acknowledged(), asyncio.Event()
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, assignment=[chance.sample(BROKERS, 3) for _ in range(PARTITIONS)])
        await _load(cluster, topic, note)
        producing = asyncio.create_task(_produce_until(stopped, cluster.bootstrap, topic, note))
        try:
            story = await _move_about(cluster, admin, topic, chance)
            await _settled(cluster, admin, topic)
        finally:
            stopped.set()
        sent = await producing
        await asyncio.to_thread(cluster.wait_for_full_isr, topic)
        verdict = compare(note, await read_back(cluster.bootstrap, topic, PARTITIONS, lambda _: None))
        assert verdict.holds, f"{story}: {verdict}"
        assert verdict.acknowledged == sent + BALLAST * PARTITIONS, story
        return {p.partition: p.replicas for p in (await admin.describe_topic(topic)).partitions}


@pytest.mark.parametrize("seed", range(3))
def test_partitions_move_under_load_and_under_kills_without_losing_a_record(four, seed):
    """CT-14, CT-15, CT-16, CT-17."""
    topic = f"moving-{seed}"
    placed = asyncio.run(_run(four, topic, random.Random(seed)))
    for partition, replicas in placed.items():
        logs = {b: four.data_directory(b) / f"{topic}-{partition}" for b in BROKERS}
        deadline = time.monotonic() + SETTLED_S  # for those that have yet to hear that it is not theirs any more
        while (held := sorted(b for b, path in logs.items() if path.exists())) != sorted(replicas):
            assert time.monotonic() < deadline, (held, placed)
            time.sleep(0.1)
        contents = {_log_bytes(logs[b]) for b in replicas}
        assert len(contents) == 1, {b: len(_log_bytes(logs[b])) for b in replicas}
