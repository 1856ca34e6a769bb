"""The audit over the directories of a real Kafka cluster: replicas that Kafka itself copied."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replog.log.formats.batch import BatchHeader, iterate_batches
from spark_jobs.audit.audit import Audit, audit
from spark_jobs.audit.findings import CONSISTENT
from spark_jobs.command_line import where_of
from tests.interop.cluster import KILLED, TOPICS, KafkaCluster, Load, running
from tests.interop.kafka import Kafka

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
