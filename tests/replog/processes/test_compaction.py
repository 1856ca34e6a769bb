"""A compacted topic under load on real processes: brokers that are killed in the middle of a cleaning, again and again,
lose no latest value, and in the end all replicas agree (CL-8, CL-9, CL-10)."""

import asyncio
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.client import Admin, Consumer, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.topic import TopicPartition
from tests.replog.log.batches import open_log
from tests.replog.log.compaction.compacting import latest_of, records_of

pytestmark = pytest.mark.processes

TOPIC = "accounts"
KEYS = 200
KILLS = 2
WRITES = 6000  # at least: far more than the active segments hold
SETTINGS = {"log.cleaner.backoff.ms": "20"}
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "60000", "min.cleanable.dirty.ratio": "0.05"}

Latest = dict[bytes, bytes]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "cluster", brokers=3, broker_settings=SETTINGS) as running:
        yield running


async def _write(cluster: LocalCluster, stopped: asyncio.Event, rng: random.Random) -> tuple[Latest, int]:
    """Keys get one value after the other, or lose it, until told to stop; what they have then, and how many writes."""
    latest: Latest = {}
    number = 0
    async with Producer(cluster.bootstrap, linger_ms=2) as producer:
        while not stopped.is_set() or number < WRITES:
            deliveries = []
            for _ in range(50):
                key = b"key-%d" % rng.randrange(KEYS)
                value = None if rng.random() < 0.1 else b"%d " % number + bytes(60)
                deliveries.append(await producer.send(TOPIC, value, key=key, partition=0))
                if value is None:
                    latest.pop(key, None)
                else:
                    latest[key] = value
                number += 1
            for delivery in deliveries:
                await delivery
    return latest, number


def _replica(cluster: LocalCluster, broker: int) -> Path:
    return cluster.data_directory(broker) / f"{TOPIC}-0"


async def _kill_while_cleaning(cluster: LocalCluster, broker: int) -> None:
    """Paused first, so that it is at it still when it is killed."""

    def cleans() -> bool:
        return any(path.suffix in (".cleaned", ".swap") for path in _replica(cluster, broker).iterdir())

    async with asyncio.timeout(100):
        while True:
            if cleans():
                cluster.pause(broker)
                if cleans():
                    break
                cluster.resume(broker)
            await asyncio.sleep(0.001)
    await asyncio.to_thread(cluster.kill, broker)


async def _cleaned(cluster: LocalCluster, writes: int) -> None:
    """Until no replica has so many bytes that it could hold half of all the writes."""

    def size(broker: int) -> float:
        try:
            return sum(path.stat().st_size for path in _replica(cluster, broker).glob("*.log"))
        except FileNotFoundError:  # one that a cleaning has just replaced
            return math.inf

    async with asyncio.timeout(100):
        while max(map(size, (1, 2, 3))) > writes * 30:
            await asyncio.sleep(0.05)


async def _read(cluster: LocalCluster) -> Latest:
    seen: dict[bytes, bytes | None] = {}
    async with Consumer(cluster.bootstrap) as consumer:
        tp = TopicPartition(TOPIC, 0)
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = (await consumer.end_offsets([tp]))[tp]
        async with asyncio.timeout(100):
            while await consumer.position(tp) < end:
                for record in await consumer.fetch(timeout_s=1):
                    assert record.key is not None
                    seen[record.key] = record.value
    return {key: value for key, value in seen.items() if value is not None}


async def test_replicas_killed_while_they_clean_agree_on_every_latest_value(cluster):
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, partitions=1, configs=CONFIGS)
    await asyncio.to_thread(cluster.wait_for_full_isr, TOPIC)
    rng, stopped = random.Random(7), asyncio.Event()
    writing = asyncio.create_task(_write(cluster, stopped, rng))
    try:
        for _ in range(KILLS):
            broker = rng.choice([1, 2, 3])
            await _kill_while_cleaning(cluster, broker)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(cluster.start, broker)
            await asyncio.to_thread(cluster.wait_for_full_isr, TOPIC)
    finally:
        stopped.set()
    latest, writes = await writing
    assert await _read(cluster) == latest
    await _cleaned(cluster, writes)
    assert await asyncio.to_thread(cluster.down) == []
    ends = set()
    for broker in (1, 2, 3):
        log = open_log(_replica(cluster, broker), cleanup_policy="compact")
        kept = len(records_of(log))
        print(json.dumps({"broker": broker, "writes": writes, "kept": kept, "segments": len(log.segments)}))
        assert latest_of(log) == latest, f"broker {broker}"
        assert kept < writes / 2, f"broker {broker} has cleaned"
        ends.add(log.log_end_offset)
        log.close()
    assert len(ends) == 1, ends
