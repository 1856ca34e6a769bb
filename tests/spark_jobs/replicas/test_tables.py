"""The tables as Spark sees them: of a running cluster the same as of its directories."""

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from cluster.local.supervisor import LocalCluster
from replog.client.sync import SyncAdmin, SyncProducer
from spark_jobs.replicas.sources import register

pytestmark = [pytest.mark.spark, pytest.mark.processes]

RECORDS = 2000
NAMES = ("replog_replicas", "replog_epochs", "replog_indexes", "replog_batches")
# What a broker knows better than its directory: when it was last written down, who leads, and where its files are.
CHANGING = ["high_watermark", "leads", "leader_epoch", "file", "read"]


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
        local_options = {f"replica.{broker}": str(cluster.data_directory(broker)) for broker in (1, 2, 3)} | {
            "topics": "t"
        }
        for name in NAMES:
            drop = CHANGING if name == "replog_replicas" else []
            remote, local = rows(spark, name, drop, **live), rows(spark, name, drop, **local_options)
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
