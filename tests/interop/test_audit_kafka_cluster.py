"""The audit over what real Kafka brokers copied, and over what Kafka's own cleaner and ours made of one topic."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replog.log.formats.batch import BatchHeader, iterate_batches
from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit, audit
from spark_jobs.audit.findings import CONSISTENT
from spark_jobs.command_line import where_of
from tests.interop.cluster import KILLED, TOPICS, KafkaCluster, Load, running
from tests.interop.history import History
from tests.interop.kafka import Kafka
from tests.replog.log.batches import open_log
from tests.replog.log.compaction.compacting import clean, records_of

pytestmark = pytest.mark.processes

PARTITIONS = sum(partitions for _, partitions in TOPICS.values())
RECORDS = 750  # in each partition, and thereby several segments, between one event and the next


@dataclass
class Lived:
    """What a cluster's life has left."""

    directories: dict[int, Path]  # after all brokers have stopped
    live: dict[str, Audit]  # by level: under load, after the killed broker had come back
    acknowledged: dict[tuple[str, int], int]


@pytest.fixture(scope="module")
def lived(kafka: Kafka, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lived:
    with running(kafka, tmp_path_factory.mktemp("kafka-cluster")) as cluster:
        return _live(cluster, spark)


def _live(cluster: KafkaCluster, spark: SparkSession) -> Lived:
    killed = cluster.brokers[KILLED]
    with Load(cluster.addresses) as load:
        load.wait_for(RECORDS)
        killed.kill()
        load.wait_for(RECORDS)
        killed.start()
        load.wait_until(lambda: KILLED in cluster.in_sync(), lambda: f"broker {KILLED} is not in sync again")
        live = {level: audit(spark, cluster.directories, list(TOPICS), level) for level in ("index", "deep")}
        load.wait_for(RECORDS)
    load.wait_until(lambda: len(cluster.in_sync()) == len(cluster.brokers), lambda: "not all are in sync")
    cluster.stop()
    return Lived(cluster.directories, live, dict(load.acknowledged))


def told(result: Audit) -> str:
    return "\n".join(map(str, [result.verdict, *result.findings, *result.replicas]))


def batches(directory: Path) -> list[tuple[Path, int, BatchHeader]]:
    """File, position and header of every batch."""
    logs = sorted(directory.glob("*.log"))
    return [(log, position, header) for log in logs for position, header in iterate_batches(log.read_bytes())]


def test_the_replicas_are_such_as_only_kafka_makes_them(lived):
    """Or the rest of this file would prove little: several segments, epochs, codecs; index entries by append."""
    assert len(lived.acknowledged) == PARTITIONS
    epochs: set[int] = set()
    for (topic, partition), count in lived.acknowledged.items():
        for directory in lived.directories.values():
            held = batches(directory / f"{topic}-{partition}")
            assert len({log for log, _, _ in held}) >= 3, f"{topic}-{partition} in {directory}: too few segments"
            assert held[-1][2].last_offset + 1 >= count >= 3 * RECORDS
            epochs |= {header.leader_epoch for _, _, header in held}
    assert max(epochs) > 0, "no leader was elected while the broker was down"


@pytest.mark.parametrize("level", ["index", "batches", "deep"])
def test_a_cluster_that_lost_a_broker_and_got_it_back_is_consistent(spark, lived, level):
    result = audit(spark, lived.directories, list(TOPICS), level)
    assert result.verdict == CONSISTENT, told(result)
    assert (result.compared, len(result.replicas)) == (PARTITIONS, 3 * PARTITIONS)
    for replica in result.replicas:
        assert replica.log_end >= lived.acknowledged[replica.topic, replica.partition], told(result)


@pytest.mark.parametrize("level", ["index", "deep"])
def test_a_cluster_is_audited_while_it_runs(lived, level):
    """No broker stopped, producers went on."""
    result = lived.live[level]
    assert result.verdict == CONSISTENT, told(result)
    assert result.compared == PARTITIONS


def test_without_a_topic_everything_is_taken_that_is_there(spark, lived):
    """Except the quorum's own log, which has no high watermark to be compared below."""
    given = [f"{number}={directory}" for number, directory in lived.directories.items()]
    where = where_of(given, None, None)
    result = audit(spark, where, level="deep")
    assert result.verdict == CONSISTENT, told(result)
    assert {(replica.topic, replica.partition) for replica in result.replicas} == set(lived.acknowledged)


TP = TopicPartition("compacted", 0)
YEARS = 10**12  # ms: long after every tombstone's time


@pytest.fixture(scope="module")
def replicas(history: History, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """1 as Kafka left it, 2 with all of it cleaned."""
    root = tmp_path_factory.mktemp("replicas")
    directories = {1: root / "1", 2: root / "2"}
    cleaned = OffsetCheckpoint(history.clean / CLEANER_CHECKPOINT).read()[TP]
    for replica, directory in directories.items():
        shutil.copytree(history.clean / "compacted-0", directory / "compacted-0")
        log = open_log(directory / "compacted-0", cleanup_policy="compact", segment_bytes=12_000)
        log.update_high_watermark(log.log_end_offset)
        end = cleaned
        if replica == 2:
            log.roll()
            before = len(records_of(log))
            end = clean(log, YEARS, checkpoint=cleaned)
            assert end > cleaned
            assert len(records_of(log)) < before  # how far Kafka's cleaner got, it decides
        marks = {TP: log.log_end_offset}
        log.close()
        OffsetCheckpoint(directory / CLEANER_CHECKPOINT).write({TP: end})
        OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).write(marks)
    return directories


@pytest.mark.parametrize("level", ["index", "batches", "deep"])
def test_replicas_that_were_cleaned_differently_are_consistent(spark, replicas, level):
    result = audit(spark, replicas, level=level)
    ends = {replica.replica: replica.cleaned_to for replica in result.replicas}
    assert 0 < ends[1] < ends[2]
    assert result.findings == []
    if level == "deep":  # of the others, nothing is left to compare
        assert result.verdict == CONSISTENT
