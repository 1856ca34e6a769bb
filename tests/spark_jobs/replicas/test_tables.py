"""The tables as Spark sees them: of a running cluster the same as of its directories, in parts the same as in one."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from cluster.local.supervisor import LocalCluster
from replog.client.sync import SyncAdmin, SyncProducer
from spark_jobs.replicas import sources
from spark_jobs.replicas.sources import BatchesSource, register
from tests.spark_jobs.log_directories import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.processes]

RECORDS = 2000
NAMES = ("replog_replicas", "replog_epochs", "replog_indexes", "replog_batches")
# What a broker knows better than its directory: when it was last written down, who leads, and where its files are.
CHANGING = ["high_watermark", "leads", "leader_epoch", "file"]


def rows(spark: SparkSession, name: str, drop: list[str], **options: str) -> list[Row]:
    frame = spark.read.format(name).options(**options).load()
    return sorted(frame.drop(*drop).collect(), key=str)


def test_tables_of_a_running_cluster_are_those_of_its_directories(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    cluster = LocalCluster(tmp_path, brokers=3).up()
    try:
        with SyncAdmin(cluster.bootstrap) as admin:
            configs = {"segment.bytes": "40000", "index.interval.bytes": "1000"}
            admin.create_topic("t", partitions=2, replication_factor=3, configs=configs)
            admin.create_topic("other", partitions=1, replication_factor=3)
        with SyncProducer(cluster.bootstrap, batch_size=500) as producer:
            producer.send_many("t", [b"value %d" % number for number in range(RECORDS)])
        cluster.wait_for_full_isr("t")
        live = {"bootstrap.servers": cluster.bootstrap, "topic": "t"}
        lying = {f"replica.{broker}": str(cluster.data_directory(broker)) for broker in (1, 2, 3)} | {"topics": "t"}
        for name in NAMES:
            drop = CHANGING if name == "replog_replicas" else []
            remote, local = rows(spark, name, drop, **live), rows(spark, name, drop, **lying)
            assert remote == local, name
            assert all(row["fault"] is None for row in remote), name
            assert {(row["topic"], row["replica"], row["partition"]) for row in remote} == {
                ("t", replica, partition) for replica in (1, 2, 3) for partition in (0, 1)
            }, name
        headers = rows(spark, "replog_batches", [], **live, crc="false")
        assert headers == rows(spark, "replog_batches", [], **live)
        assert {row["replica"] for row in rows(spark, "replog_epochs", [], **live, replicas="1,3")} == {1, 3}
        described = spark.read.format("replog_replicas").options(**live).load().collect()
        leads = [(row["partition"], row["replica"]) for row in described if row["leads"]]
        assert sorted(partition for partition, _ in leads) == [0, 1], described
    finally:
        cluster.down()


class BatchesInParts(BatchesSource):
    """`replog_batches` of segments that are small, and yet read in parts."""

    @classmethod
    def name(cls) -> str:
        return "batches_in_parts"

    def reader(self, schema: Any) -> Any:
        reader = super().reader(schema)
        reader._parts = lambda segment: sources.parts_of(segment, 300)  # type: ignore[attr-defined]
        return reader


def test_a_table_is_the_same_however_its_segments_are_read(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    spark.dataSource.register(BatchesInParts)
    cluster = Cluster(tmp_path)
    cluster.add("t")
    cluster.patch(2, "t", 24, 70, b"\xff")
    cluster.cut_out(3, "t", 30)
    options = {f"replica.{replica}": str(path) for replica, path in cluster.directories.items()}
    whole = rows(spark, "replog_batches", [], **options)
    assert {row["fault"] for row in whole} >= {None, "BIT_ROT", "GAP"}
    assert rows(spark, "batches_in_parts", [], **options) == whole


def test_options_that_make_no_sense_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    for options in (
        {},
        {"replica.one": str(tmp_path)},
        {"replica.1": str(tmp_path), "bootstrap.servers": "localhost:1"},
        {"replica.1": str(tmp_path), "replicas": "x"},
        {"bootstrap.servers": "nonsense"},
    ):
        with pytest.raises(Exception, match=r"replica|bootstrap"):
            spark.read.format("replog_batches").options(**options).load().collect()
