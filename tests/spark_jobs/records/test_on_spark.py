"""`format("replog")` in Spark itself, on a cluster of real processes. Nothing registers it: Spark finds it."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from replog.client import Admin, Producer
from replog.demo.traffic import read_back
from replog.local_cluster.local_cluster import LocalCluster
from spark_jobs.java import find_java_home, shim_java_home
from spark_jobs.records import offsets_behind_latest
from tests.docs.tree import ROOT
from tests.spark_jobs.standalone import SHORT_LIVED

pytestmark = pytest.mark.processes

COLUMNS = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>>"
)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=3) as running:
        yield running


def create(local: LocalCluster, *topics: str, partitions: int = 3) -> None:
    async def made() -> None:
        async with Admin(local.bootstrap) as admin:
            for topic in topics:
                await admin.create_topic(topic, partitions=partitions, replication_factor=3)

    asyncio.run(made())


def produce(local: LocalCluster, topic: str, first: int, count: int) -> None:
    async def sent() -> None:
        async with Producer(local.bootstrap, linger_ms=5) as producer:
            for number in range(first, first + count):
                headers = [("n", b"%d" % number)] if number % 2 else []
                await producer.send(topic, b"%d" % number, b"k%d" % number, headers=headers)

    asyncio.run(sent())


def first_line(caught: pytest.ExceptionInfo[PySparkException]) -> str:
    return str(caught.value).splitlines()[0]


def values(local: LocalCluster, topic: str) -> list[int]:
    records = asyncio.run(read_back(local.bootstrap, topic, 3, lambda _: None))
    return sorted(int(value) for _, _, value in records)


def options(local: LocalCluster, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": local.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}


def test_a_batch_query_has_the_columns_and_rows_of_the_topic(spark, local):
    create(local, "batch")
    produce(local, "batch", 0, 5000)
    read = spark.read.format("replog").options(**options(local, "batch"))
    frame = read.option("includeHeaders", "true").load()
    assert frame.schema.simpleString() == COLUMNS
    summary = frame.selectExpr(
        "count(*)",
        "count(distinct partition, offset)",
        "sum(cast(value as string))",
        "count_if(concat('k', cast(value as string)) = cast(key as string))",
        "count_if(cast(headers[0].value as string) = cast(value as string))",
        "max(size(headers))",
        "count_if(abs(timestampdiff(SECOND, timestamp, now())) < 3600)",
    ).first()
    assert summary is not None
    assert tuple(summary) == (5000, 5000, 5000 * 4999 / 2, 5000, 2500, 1, 5000)
    assert read.load().where("partition = 1").limit(3).count() == 3
    assert (
        spark.read.format("replog").options(**options(local, "batch")).option("minPartitions", 7).load().count() == 5000
    )
    idle = {"kafka.group.id": "mine", "kafka.security.protocol": "PLAINTEXT", "groupIdPrefix": "mine"}
    assert read.options(**idle).load().count() == 5000
    with pytest.raises(PySparkException) as caught:
        read.option("subscribe", "nothing").load().count()
    assert "UNKNOWN_TOPIC_OR_PARTITION" in first_line(caught)
    with pytest.raises(PySparkException) as caught:
        read.option("startingOffset", "earliest").load().count()
    assert "the source knows no option startingoffset; did you mean startingOffsets" in first_line(caught)


def test_replicas_are_tables_that_spark_finds_by_their_names(spark, local):
    create(local, "tables", partitions=2)
    produce(local, "tables", 0, 100)
    local.wait_for_full_isr("tables")
    for name in ("replog_replicas", "replog_epochs", "replog_batches"):
        table = spark.read.format(name).options(topic="tables", **{"bootstrap.servers": local.bootstrap}).load()
        rows = table.select("replica", "partition", "fault").distinct().collect()
        assert sorted(map(tuple, rows)) == [(replica, n, None) for replica in (1, 2, 3) for n in (0, 1)], name


def test_a_batch_write_reads_back(spark, local):
    create(local, "written")
    frame = spark.range(10_000, numPartitions=3).selectExpr(
        "cast(id as string) as value", "cast(id % 7 as string) as key", "'written' as topic"
    )
    frame.write.format("replog").option("kafka.bootstrap.servers", local.bootstrap).mode("append").save()
    assert values(local, "written") == list(range(10_000))
    to_written = {"bootstrap.servers": local.bootstrap, "topic": "written"}
    with pytest.raises(PySparkException) as caught:
        spark.range(1).write.format("replog").options(**to_written).mode("append").save()
    assert "there is no column 'value'" in first_line(caught)
    large = spark.range(1).selectExpr("repeat('x', 2000000) as value")
    with pytest.raises(PySparkException) as caught:
        large.write.format("replog").options(**to_written).mode("append").save()
    assert "more than kafka.max.request.size=1048576; raise that" in "".join(str(caught.value).splitlines()[:2])


def test_a_stream_goes_on_from_its_checkpoint_at_its_rate_and_is_exact_though_a_broker_is_killed(
    spark, local, tmp_path
):
    create(local, "in", "out")
    produce(local, "in", 0, 2500)
    source = spark.readStream.format("replog").options(**options(local, "in")).option("maxOffsetsPerTrigger", 1000)

    def run(meanwhile: Callable[[], object] = lambda: None) -> StreamingQuery:
        sink = source.load().select("key", "value").writeStream.format("replog").option("topic", "out")
        sink = sink.option("kafka.bootstrap.servers", local.bootstrap).queryName("copy")
        query = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        meanwhile()
        assert query.awaitTermination(400), "the query did not end"
        return query

    reports = [progress for progress in run().recentProgress if progress["numInputRows"]]
    assert [progress["numInputRows"] for progress in reports] == [1000, 1000, 500]
    behind = [offsets_behind_latest(progress["sources"][0])["avgOffsetsBehindLatest"] for progress in reports]
    assert behind == [str(left / 3) for left in (1500, 500, 0)]
    assert values(local, "out") == list(range(2500))
    produce(local, "in", 2500, 700)
    again = [progress for progress in run(lambda: local.kill(2)).recentProgress if progress["numInputRows"]]
    assert [progress["numInputRows"] for progress in again] == [700], "only what is new is read after a restart"
    assert values(local, "out") == list(range(3200))
    local.start(2)


@pytest.mark.spark
def test_the_job_of_the_page_goes_on_where_it_stopped(local, tmp_path):
    """As it stands there, by the path to a Python whose environment nobody has activated."""
    page = (ROOT / "docs/spark.md").read_text()
    job, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (session,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    (tmp_path / "late_flights.py").write_text(job)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")} | {
        "PATH": os.defpath,
        "JAVA_HOME": str(shim_java_home(find_java_home())),
        "REPLOG_BOOTSTRAP_SERVER": local.bootstrap,
        **SHORT_LIVED,
    }
    script = "".join(f"{line[2:]}\n" for line in session.splitlines() if line.startswith("$ "))
    shell = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1500)
    if done.returncode:
        raise PySparkException(done.stderr[-5000:])
    printed = [line for line in session.splitlines() if not line.startswith("$ ")]
    assert done.stdout.splitlines()[-2:] == printed, done.stderr[-5000:]
