"""Measures reads through `format("replog")`, in records of 100 B a second.

A query in `local[2]` touches every value and offset of a topic, on a local cluster of one broker on the same machine.
The figure is that of the wall clock. For a machine that has other work, it also prints the CPU of all processes, and an
estimate for two free cores. Run it with `make bench-spark`.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.measure import cpu_seconds, descendants, environment
from replog.client import Admin, Producer
from replog.local_cluster.local_cluster import LocalCluster
from spark_jobs.java import find_java_home, shim_java_home

RECORD_BYTES = 100
TOPIC = "benchmark"
PARTITIONS = 4


async def fill(bootstrap: str, records: int) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
    async with Producer(bootstrap, linger_ms=50) as producer:
        value = os.urandom(RECORD_BYTES)
        for number in range(records):
            await producer.send(TOPIC, value, partition=number % PARTITIONS)


def session() -> SparkSession:
    """Start Spark as a user's job does; `spark_session` would set Java up for audits of a few seconds."""
    os.environ |= {
        "JAVA_HOME": str(shim_java_home(find_java_home())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    builder = SparkSession.builder.appName("benchmark").master("local[2]")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    return builder.getOrCreate()


def through_spark(bootstrap: str, brokers: list[int], records: int, runs: int) -> list[str]:
    spark = session()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}
    lines = []
    for run in range(runs):
        before = {pid: cpu_seconds(pid) for pid in [*descendants(os.getpid()), *brokers]}
        started = time.perf_counter()
        frame = spark.read.format("replog").options(**options).load()
        row = frame.selectExpr("count(*)", "sum(length(value))", "max(offset)").first()
        seconds = time.perf_counter() - started
        assert row is not None
        assert tuple(row)[:2] == (records, records * RECORD_BYTES), row
        after = {pid: cpu_seconds(pid) for pid in [*descendants(os.getpid()), *brokers]}
        used = sum(after[pid] - before.get(pid, 0.0) for pid in after)
        lines.append(
            f"through Spark, run {run + 1}: {records / seconds:,.0f} records/s, {used / records * 1e6:.2f} µs of CPU a "
            f"record in Spark, Python and broker together: {2 * records / used:,.0f} records/s of two free cores"
        )
    spark.stop()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=8_000_000)
    parser.add_argument("--runs", type=int, default=4, help="through Spark; the first one starts its workers")
    options = parser.parse_args()
    console = Console(stderr=True)
    directory = Path(tempfile.mkdtemp(prefix="replog-bench-"))
    cluster = LocalCluster(directory, brokers=1)
    try:
        cluster.up(progress=console.print)
        asyncio.run(fill(cluster.bootstrap, options.records))
        brokers = [broker.process.pid for broker in cluster.state.brokers if broker.process is not None]
        spark = through_spark(cluster.bootstrap, brokers, options.records, options.runs)
    finally:
        cluster.down()
        shutil.rmtree(directory, ignore_errors=True)
    print("\n".join([*spark, environment()]))


if __name__ == "__main__":
    main()
