"""Replicas read from running brokers: the same tables as from their directories. Real gRPC, in one process."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from replog.log.files import LOG_SUFFIX, segment_file_name
from replog.topic import TopicPartition
from spark_jobs.replicas import brokers
from spark_jobs.replicas.brokers import BrokerStore, broker_stores
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import PartitionFiles, ReplicaStore, Vanished
from spark_jobs.replicas.index_check import index_points
from spark_jobs.replicas.scan import open_log
from spark_jobs.replicas.segment_check import check_segment
from tests.cluster.broker.conftest import InProcessCluster, batch

TP = TopicPartition("t", 0)
SMALL = {"segment_bytes": "4000", "index_interval_bytes": "300"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    running = InProcessCluster(tmp_path)
    await running.start_controller()
    try:
        yield running
    finally:
        await running.stop()


async def filled(cluster: InProcessCluster, batches: int = 100) -> list[BrokerStore]:
    """Topics t and u on brokers 1 and 2, with some segments each; the stores of the brokers."""
    await cluster.start_brokers(1, 2)
    for topic in ("t", "u"):
        await cluster.create_topic(topic, replication_factor=2, **SMALL)
    for number in range(batches):
        await cluster.produce(TP, batch(b"value %d" % number, b"x" * (number % 50)))
    return await asyncio.to_thread(broker_stores, cluster.brokers[1].address)


def everything(store: ReplicaStore) -> dict[str, Any]:
    """All that the tables would say, without the places."""
    found: dict[str, Any] = {}
    try:
        for files in store.partitions(frozenset()):
            name = f"{files.partition}"
            found[f"{name} bounds"] = describe(files)._replace(leads=None, leader_epoch=None, high_watermark=None)
            found[f"{name} epochs"] = files.epochs().entries
            for segment in files.segments:
                found[f"{name} {segment.base} sums"] = (segment.size, segment.bytes_before, segment.digest_before)
                found[f"{name} {segment.base} indexes"] = list(index_points(segment, files.log_start, [17, 90]))
                for crc in (False, True):
                    found[f"{name} {segment.base} {crc}"] = list(check_segment(segment, files.log_start, crc=crc))
    finally:
        store.close()
    return found


async def test_a_running_broker_tells_what_its_directory_tells(cluster: InProcessCluster) -> None:
    stores = await filled(cluster)
    assert [store.replica for store in stores] == [1, 2]
    for store in stores:
        store = pickle.loads(pickle.dumps(store))
        remote = await asyncio.to_thread(everything, store)
        local = everything(DirectoryStore(store.replica, cluster.directory / f"broker-{store.replica}"))
        assert remote.keys() == local.keys()
        for name, value in local.items():
            assert remote[name] == value, f"broker {store.replica}: {name}"
        assert len(local) > 10, local.keys()
