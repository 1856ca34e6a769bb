"""Brokers with many more files than descriptors: topics are made and written, and all of it outlives kill -9."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replog.client import Admin, Consumer, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.topic import TopicPartition

pytestmark = pytest.mark.processes

DESCRIPTORS = 100  # of each process, half of them for files of logs
PARTITIONS = 200  # each with four files, on every broker: as 2,000 would be with a limit of 1,000
TOPIC = "many"


def up(directory: Path) -> LocalCluster:
    """`replog cluster up` by somebody whose limit is low, hard and soft."""
    command = f"ulimit -n {DESCRIPTORS} && exec {sys.executable} -m replog.cli cluster up --brokers 3"
    environment = {**os.environ, "REPLOG_CLUSTER_DIRECTORY": str(directory)}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return LocalCluster(directory)


async def write(bootstrap: str, text: str) -> None:
    """One record to every partition, three times."""
    async with Producer(bootstrap) as producer:
        sent = [
            await producer.send(TOPIC, f"{text} {partition} {number}".encode(), partition=partition)
            for number in range(3)
            for partition in range(PARTITIONS)
        ]
        await producer.flush()
    assert all(delivery.result().offset >= 0 for delivery in sent)


async def read(bootstrap: str, expected: int) -> dict[int, list[bytes | None]]:
    values: dict[int, list[bytes | None]] = {partition: [] for partition in range(PARTITIONS)}
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
        async with asyncio.timeout(60):
            while sum(map(len, values.values())) < expected:
                for record in await consumer.fetch(timeout_s=1.0):
                    values[record.partition].append(record.value)
    return values


def descriptors_of(cluster: LocalCluster) -> dict[str, int]:
    return {
        member.name: len(os.listdir(f"/proc/{member.process.pid}/fd"))
        for member in cluster.state.members
        if member.process is not None
    }


def test_a_topic_with_more_files_than_descriptors_is_made_written_killed_and_written_again(tmp_path):
    """Divergence 30."""
    cluster = up(tmp_path)
    try:

        async def make() -> None:
            async with Admin(cluster.bootstrap) as admin:
                await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)

        asyncio.run(make())
        cluster.wait_for_full_isr(TOPIC)
        asyncio.run(write(cluster.bootstrap, "first"))
        for broker in (1, 2, 3):
            cluster.kill(broker)
        cluster = up(tmp_path)
        cluster.wait_for_full_isr(TOPIC)
        asyncio.run(write(cluster.bootstrap, "second"))
        by_partition = asyncio.run(read(cluster.bootstrap, 6 * PARTITIONS))
        for partition, values in by_partition.items():
            assert values == [
                f"{text} {partition} {number}".encode() for text in ("first", "second") for number in range(3)
            ]
        counts = descriptors_of(cluster)
        assert max(counts.values()) <= DESCRIPTORS, counts
        assert min(counts.values()) > 0, counts
    finally:
        killed = cluster.down()
    assert killed == []
