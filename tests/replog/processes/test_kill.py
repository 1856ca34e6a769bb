"""kill -9 of any broker at any moment loses no acknowledged record and doubles none: 20 runs out of 20 by their seeds.

Every run produces with acks=all without a pause, kills one broker at a random moment, goes on, starts the broker
again on its own data, and compares everything readable with everything acknowledged, offset by offset. At the end the
three replicas of each partition must be the same bytes.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from replog.client import Admin, Delivery, Producer
from replog.demo.acknowledged import Acknowledged, compare
from replog.demo.traffic import read_back
from replog.local_cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.processes

RUNS = 20
PARTITIONS = 3
PACE_S = 0.002
RECORDS_A_STEP = 3


async def _produce_until(stopped: asyncio.Event, bootstrap: str, topic: str, note: Acknowledged) -> int:
    """Send records, each of a value of its own, until told to stop; the number sent. Every one must be acknowledged."""
    sent: list[tuple[bytes, Delivery]] = []
    async with Producer(bootstrap, linger_ms=1) as producer:
        while not stopped.is_set():
            for _ in range(RECORDS_A_STEP):
                number = len(sent)
                value = b"%s %d" % (topic.encode(), number)
                sent.append((value, await producer.send(topic, value, partition=number % PARTITIONS)))
            await asyncio.sleep(PACE_S)
        await producer.flush()
        for value, delivery in sent:
            where = delivery.result()
            note.add(where.partition, where.offset, value)
    return len(sent)


async def _at_a_random_moment(cluster: LocalCluster, chance: random.Random) -> str:
    broker = chance.choice([1, 2, 3])
    before_s, down_s, after_s = chance.uniform(0.0, 1.0), chance.uniform(0.0, 1.0), chance.uniform(0.1, 0.5)
    await asyncio.sleep(before_s)
    await asyncio.to_thread(cluster.kill, broker)
    await asyncio.sleep(down_s)
    await asyncio.to_thread(cluster.start, broker)
    await asyncio.sleep(after_s)
    return f"broker {broker} killed after {before_s:.3f} s, down for {down_s:.3f} s"


async def _run(cluster: LocalCluster, topic: str, trouble: Callable[[], Awaitable[str]]) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    await asyncio.to_thread(cluster.wait_for_full_isr, topic)
    note, stopped = Acknowledged(), asyncio.Event()
    producing = asyncio.create_task(_produce_until(stopped, cluster.bootstrap, topic, note))
    try:
        story = await trouble()
    finally:
        stopped.set()
    sent = await producing
    await asyncio.to_thread(cluster.wait_for_full_isr, topic)
    verdict = compare(note, await read_back(cluster.bootstrap, topic, PARTITIONS, lambda _: None))
    print(f"{topic}: {story}; {verdict}")
    assert verdict.holds, f"{story}: {verdict}"
    assert verdict.acknowledged == sent, story
    assert verdict.unacknowledged == 0, story
    assert set(note.by_partition) == set(range(PARTITIONS)), story


def _replicas_are_identical(cluster: LocalCluster, topic: str) -> None:
    for partition in range(PARTITIONS):
        logs = {broker: _log_bytes(cluster.data_directory(broker) / f"{topic}-{partition}") for broker in (1, 2, 3)}
        assert logs[1] == logs[2] == logs[3], {broker: len(log) for broker, log in logs.items()}


def _log_bytes(replica: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(replica.glob("*.log")))


@pytest.mark.parametrize("seed", range(RUNS))
def test_kill_minus_9_of_any_broker_at_any_moment_loses_and_doubles_no_acknowledged_record(cluster, seed):
    chance = random.Random(seed)
    asyncio.run(_run(cluster, f"precious-{seed}", lambda: _at_a_random_moment(cluster, chance)))
    _replicas_are_identical(cluster, f"precious-{seed}")
