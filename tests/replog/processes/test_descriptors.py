"""Brokers with many more files than descriptors: topics are made and written, and all of it outlives kill -9."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replog.client import Producer, SyncAdmin
from replog.demo.traffic import read_back
from replog.local_cluster.local_cluster import LocalCluster
from tests.replog.secure import SECURE

pytestmark = pytest.mark.processes

DESCRIPTORS = 100  # of each process, half of them for files of logs
PARTITIONS = 200  # each with four files, on every broker: as 2,000 would be with a limit of 1,000
TOPIC = "many"


def up(directory: Path) -> LocalCluster:
    """`replog cluster up` by somebody whose limit is low, hard and soft."""
    command = (
        f"ulimit -n {DESCRIPTORS} && exec {sys.executable} -m replog.cli cluster up --brokers 3{' --secure' * SECURE}"
    )
    environment = {**os.environ, "REPLOG_CLUSTER_DIRECTORY": str(directory)}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return LocalCluster(directory).up()  # it runs: clients hear of its certificate


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
        with SyncAdmin(cluster.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        cluster.wait_for_full_isr(TOPIC)
        asyncio.run(write(cluster.bootstrap, "first"))
        for broker in (1, 2, 3):
            cluster.kill(broker)
        cluster = up(tmp_path)
        cluster.wait_for_full_isr(TOPIC)
        asyncio.run(write(cluster.bootstrap, "second"))
        by_partition = [list[bytes]() for _ in range(PARTITIONS)]
        for partition, _, value in asyncio.run(read_back(cluster.bootstrap, TOPIC, PARTITIONS, lambda _: None)):
            by_partition[partition].append(value)
        for partition, values in enumerate(by_partition):
            assert values == [
                f"{text} {partition} {number}".encode() for text in ("first", "second") for number in range(3)
            ]
        counts = descriptors_of(cluster)
        assert max(counts.values()) <= DESCRIPTORS, counts
        assert min(counts.values()) > 0, counts
    finally:
        killed = cluster.down()
    assert killed == []
