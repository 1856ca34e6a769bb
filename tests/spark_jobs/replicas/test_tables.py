"""The tables as Spark finds them by their names: of a running cluster the same as of its directories."""

import pytest
from pyspark.sql import Row, SparkSession

from replog.client.sync import SyncAdmin, SyncProducer
from replog.local_cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.processes

RECORDS = 2000
NAMES = ("replog_replicas", "replog_epochs", "replog_indexes", "replog_batches")
ATTEMPTS = 20  # a broker that is not heard of, on a busy machine, leaves its partitions to others, in new leader epochs
# What a broker knows better than its directory: when it was last written down, who leads, and where its files are.
CHANGING = ["high_watermark", "leads", "leader_epoch", "file", "read"]


def rows(spark: SparkSession, name: str, drop: list[str], **options: str) -> list[Row]:
    frame = spark.read.format(name).options(**options).load()
    return sorted(frame.drop(*drop).collect(), key=str)


def test_tables_of_a_running_cluster_are_those_of_its_directories(spark, tmp_path):
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
            for _ in range(ATTEMPTS):
                remote, local = rows(spark, name, drop, **live), rows(spark, name, drop, **local_options)
                if remote == local:
                    break
            assert remote == local, name
            assert [row for row in remote if row["fault"] is not None] == [], name
            assert {(row["topic"], row["replica"], row["partition"]) for row in remote} == {
                ("t", replica, partition) for replica in (1, 2, 3) for partition in (0, 1)
            }, name
        headers = rows(spark, "replog_batches", [], **live, crc="false")
        assert headers == rows(spark, "replog_batches", [], **live)
        assert {row["replica"] for row in rows(spark, "replog_epochs", [], **live, replicas="1,3")} == {1, 3}
        for _ in range(ATTEMPTS):
            described = rows(spark, "replog_replicas", [], **live)
            led = sorted(row["partition"] for row in described if row["leads"])
            if led == [0, 1]:
                break
        assert led == [0, 1], described
    finally:
        cluster.down()
