"""A broker that is killed is noticed when it dies and not a session later (CT-21): how long nothing is acknowledged."""

import asyncio
import itertools
import time

import pytest

from replog.client import Admin, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.files.replacing import write_atomically

pytestmark = pytest.mark.processes

PARTITIONS = 6
BOUND_S = 5.0  # the session alone would take 9 s
DEFAULTS = {
    "broker.heartbeat.interval.ms": "2000",
    "replica.fetch.backoff.ms": "1000",
    "replica.lag.time.max.ms": "30000",
}
SESSION = "broker.session.timeout.ms=9000\n"


async def _write(producer: Producer, topic: str, partition: int, acknowledged: list[float]) -> None:
    """One record after the other, each acknowledged before the next is sent."""
    while True:
        delivery = await producer.send(topic, b"value", partition=partition)
        await delivery
        acknowledged.append(time.monotonic())
        await asyncio.sleep(0.01)


def _longest_gap(acknowledged: list[float], since: float) -> float:
    times = [since, *(at for at in acknowledged if at > since)]
    return max((later - earlier for earlier, later in itertools.pairwise(times)), default=float("inf"))


async def _gaps(cluster: LocalCluster, topic: str, victim: int) -> tuple[dict[int, float], set[int]]:
    """The longest gap between two acknowledgements of each partition once `victim` was killed; which ones it led."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        await asyncio.to_thread(cluster.wait_for_full_isr, topic)
        leaders = {p.partition: p.leader for p in (await admin.describe_topic(topic)).partitions}
    led = {partition for partition, leader in leaders.items() if leader == victim}
    acknowledged: list[list[float]] = [[] for _ in range(PARTITIONS)]
    async with Producer(cluster.bootstrap) as producer, asyncio.TaskGroup() as group:
        writers = [
            group.create_task(_write(producer, topic, partition, acknowledged[partition]))
            for partition in range(PARTITIONS)
        ]
        async with asyncio.timeout(60):
            while min(map(len, acknowledged)) < 20:
                await asyncio.sleep(0.01)
        killed_at = time.monotonic()
        await asyncio.to_thread(cluster.kill, victim)
        async with asyncio.timeout(60):
            while min(sum(at > killed_at + 1.0 for at in times) for times in acknowledged) < 20:
                await asyncio.sleep(0.01)
        for writer in writers:
            writer.cancel()
    return {p: _longest_gap(times, killed_at) for p, times in enumerate(acknowledged)}, led


def test_after_a_sigkill_records_are_acknowledged_again_long_before_the_session_ends(tmp_path):
    controller = tmp_path / "controller"
    controller.mkdir()
    write_atomically(controller / "controller.properties", SESSION.encode())
    with LocalCluster(tmp_path, brokers=3, broker_settings=DEFAULTS) as cluster:
        gaps, led = asyncio.run(_gaps(cluster, "steady", victim=2))
    assert led
    of_led = max(gaps[partition] for partition in led)
    of_others = max(gap for partition, gap in gaps.items() if partition not in led)
    print(f"longest gap: {of_led:.3f} s where it led, {of_others:.3f} s elsewhere")
    assert of_led < BOUND_S
    assert of_others < BOUND_S
