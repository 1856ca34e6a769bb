"""Where the cluster is and with which certificate it is asked: one name each, for source, sink and tables."""

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from replog.client import Admin
from replog.config.properties import load_properties
from replog.errors import ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from spark_jobs.kafka_options import in_full, refuse_unknown, security_of
from spark_jobs.records.options import sink_options, source_options
from spark_jobs.records.readers import BatchQueryReader, StreamReader
from spark_jobs.records.writer import BatchWriter
from spark_jobs.replicas.sources import BatchesSource
from tests.spark_jobs.records.conftest import read_all


def test_kafkas_prefix_may_be_left_out():
    kafkas = ("kafka.linger.ms", "kafka.bootstrap.servers")
    given = {"Linger.ms": " 5 ", "kafka.bootstrap.servers": "a:1", "bootstrap.servers": "a:1 ", "topic": "t"}
    assert in_full(given, kafkas) == {"kafka.linger.ms": "5", "kafka.bootstrap.servers": "a:1", "topic": "t"}
    with pytest.raises(ReplogError, match=r"option kafka\.linger\.ms is given twice, with different values"):
        in_full({"linger.ms": "5", "kafka.linger.ms": "6"}, kafkas)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ["failondatalos", "subscribepatern"],
            r"failOnDataLoss\? the source knows .*; did you mean subscribePattern or subscribe\?$",
        ),
        (["quux", "xyzzy"], r"no option quux, xyzzy; it knows failOnDataLoss, subscribe, subscribePattern$"),
    ],
)
def test_a_misspelt_option_is_told_what_was_meant_and_any_other_what_there_is(given, told):
    with pytest.raises(ReplogError, match=told):
        refuse_unknown("the source", [*given, "subscribe"], ("subscribe", "subscribePattern", "failOnDataLoss"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kafka.security.protocol": "SASL_SSL"}, "security.protocol='SASL_SSL': give PLAINTEXT or SSL"),
        ({"kafka.security.protocol": "SSL"}, "ssl.truststore.location is missing"),
        ({"kafka.ssl.keystore.location": "/x"}, "add security.protocol=SSL, or leave them out"),
        ({"kafka.ssl.keystore.type": "JKS"}, "only PEM is known here"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "none"}, f"{Path.cwd() / 'none'}"),
    ],
)
def test_what_is_wrong_with_tls_is_told_before_anything_is_asked(given, told):
    with pytest.raises(ReplogError) as caught:
        security_of(given)
    assert told in str(caught.value)


@pytest.mark.processes
def test_a_secured_cluster_is_written_read_streamed_and_shown_as_tables_by_options_alone(tmp_path, monkeypatch):
    with LocalCluster(tmp_path, brokers=1, secure=True) as cluster:
        monkeypatch.delenv("REPLOG_CLIENT_CONFIG", raising=False)
        options = {f"kafka.{name}": value for name, value in load_properties(cluster.client_config).items()}
        options = {
            name: str(cluster.client_config.parent / value) if name.endswith(".location") else value
            for name, value in options.items()
        } | {"bootstrap.servers": cluster.bootstrap}

        async def create() -> None:
            security = {name.removeprefix("kafka.").replace(".", "_"): value for name, value in options.items()}
            files = {name: value for name, value in security.items() if name.endswith("_location")}
            async with Admin(cluster.bootstrap, **files) as admin:  # type: ignore[arg-type]
                await admin.create_topic("t", partitions=1, replication_factor=1)

        asyncio.run(create())
        writer = BatchWriter(sink_options({**options, "topic": "t"}), StructType().add("value", StringType()))
        writer.write(iter([pa.RecordBatch.from_pydict({"value": ["one", "two"]})]))
        batch = BatchQueryReader(source_options({**options, "subscribe": "t"}, streaming=False))
        assert [row["value"] for row in read_all(batch, list(batch.partitions()))] == [b"one", b"two"]
        earliest = {**options, "subscribe": "t", "startingOffsets": "earliest"}
        stream = StreamReader(source_options(earliest, streaming=True))
        end = stream.latestOffset(start := stream.initialOffset(), stream.getDefaultReadLimit())
        assert [row["value"] for row in read_all(stream, list(stream.partitions(start, end)))] == [b"one", b"two"]
        table = BatchesSource({**options, "topic": "t"}).reader(StructType())
        rows = [row for part in table.partitions() for read in table.read(part) for row in read.to_pylist()]
        assert [(row["last_offset"], row["fault"]) for row in rows] == [(1, None)]
        plain = {"bootstrap.servers": cluster.bootstrap, "security.protocol": "PLAINTEXT", "topic": "t"}
        with pytest.raises(OSError, match=r"set security\.protocol=SSL"):
            BatchesSource(plain).reader(StructType())
