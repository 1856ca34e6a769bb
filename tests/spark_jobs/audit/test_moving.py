"""Replicas that change while they are audited: read again, or said to be changing; never guessed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from replog.log.formats.checkpoint import write_entries
from replog.topic import TopicPartition
from spark_jobs.audit.audit import ATTEMPTS, audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE
from tests.replog.server.broker.conftest import batch
from tests.replog.server.broker.conftest import cluster as running
from tests.spark_jobs.log_directories import Cluster

__all__ = ["running"]

TP = TopicPartition("t", 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Replica 3 has an epoch checkpoint that lies: something to be seen in each reading."""
    cluster = Cluster(tmp_path)
    cluster.add("t")
    write_entries(cluster.path(3, "t") / "leader-epoch-checkpoint", [(1, 0), (2, 28), (3, 48)])
    return cluster


def moving(cluster: Cluster, times: int) -> Callable[[str], None]:
    """To be called at each stage: retention deletes something of replica 2 whenever it is about to be read."""
    starts = iter(range(2, 2 + 2 * times, 2))

    def at_stage(stage: str) -> None:
        if stage.startswith("reading every") and (start := next(starts, None)) is not None:
            cluster.starts[2][TP] = start
            cluster.write_checkpoints()

    return at_stage


def test_what_is_seen_of_a_partition_that_changed_is_seen_again(spark, cluster):
    stages: list[str] = []
    move = moving(cluster, 1)

    def at_stage(stage: str) -> None:
        stages.append(stage)
        move(stage)

    result = audit(spark, cluster.directories, level="batches", progress=at_stage)
    assert [(f.kind, f.wrong, f.first, f.last) for f in result.findings] == [("EPOCH_CACHE_LIE", 3, 24, 27)]
    assert result.verdict == DIVERGED
    assert stages.count("reading every header") == 2, stages
    assert {replica.log_start for replica in result.replicas} == {0, 2}, "told as it was when it was read"


def test_a_partition_that_changes_each_time_is_inconclusive(spark, cluster):
    cluster.add("u")
    result = audit(spark, cluster.directories, level="batches", progress=moving(cluster, ATTEMPTS))
    assert result.verdict == INCONCLUSIVE
    (finding,) = result.findings
    assert (finding.kind, finding.topic) == ("UNREADABLE", "t"), "the other topic is settled"
    assert f"its log start moved from {2 * ATTEMPTS - 2} to {2 * ATTEMPTS}" in finding.why
    assert "Audit it again" in finding.remedy


async def test_a_running_cluster_is_audited_while_it_is_written_to(spark, running):
    await running.start_brokers(1, 2)
    await running.create_topic("t", replication_factor=2, segment_bytes="4000", index_interval_bytes="300")
    for number in range(100):
        await running.produce(TP, batch(b"value %d" % number))
    stop = asyncio.Event()

    async def write() -> int:
        count = 0
        while not stop.is_set():
            await running.produce(TP, batch(b"more %d" % count))
            count += 1
            await asyncio.sleep(0.01)
        return count

    writing = asyncio.create_task(write())
    try:
        for level in ("digest", "index", "batches", "deep"):
            result = await asyncio.to_thread(audit, spark, running.brokers[1].address, ["t"], level)
            assert (result.verdict, result.compared) == (CONSISTENT, 1), (level, result.findings)
            assert sum(result.bytes_read.values()) > 0
    finally:
        stop.set()
        assert await writing > 0
