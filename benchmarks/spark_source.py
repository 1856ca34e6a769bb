"""What reading through `format("replog")` costs: records a second of 100 B, decoded alone and through Spark.

Decoding: one fetch answer again and again, to Arrow columns, and to the client's records beside it. Through Spark: a
query that touches every value and offset of a topic on a local cluster of one broker, in `local[2]`; the brokers run on
the same machine. The wall clock is the figure. CPU of all processes is told beside it, for a machine that has other
things to do, and what two cores could do of it if they had nothing else to do: an estimate. Run it with
`make bench-spark`.
"""

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.measure import cpu_seconds, descendants, environment
from replog.client import Admin, Producer
from replog.client.records import decode_fetched, encode_batch
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.formats.batch import HEADER, HEADER_SIZE, parse_header
from replog.rpc.allocator import tune_allocator
from spark_jobs.java import find_java_home, shim_java_home
from spark_jobs.records.bad_records import BadRecords
from spark_jobs.records.decoding import arrow_batches, checked_batches

RECORD_BYTES = 100
TOPIC = "benchmark"
PARTITIONS = 4
RECORDS_A_BATCH = 1000
BATCHES = 10  # of one fetch answer of about a MiB


def fetch_answer(sizes: Sequence[int]) -> bytes:
    batch = encode_batch([(1_700_000_000_000 + n, None, os.urandom(size), ()) for n, size in enumerate(sizes)])
    headers = (parse_header(batch)._replace(base_offset=number * RECORDS_A_BATCH) for number in range(BATCHES))
    return b"".join(HEADER.pack(*header) + bytes(batch[HEADER_SIZE:]) for header in headers)


def to_arrow(answer: bytes) -> None:
    for _ in arrow_batches(checked_batches(answer, "t", 0, 0), 2**62, BadRecords("t-0", fail=True), headers=False):
        pass


def decoding(name: str, decode: Callable[[], object], times: int) -> str:
    decode()
    used, started = time.process_time(), time.perf_counter()
    for _ in range(times):
        decode()
    used, seconds = time.process_time() - used, time.perf_counter() - started
    records = times * BATCHES * RECORDS_A_BATCH
    return f"{name}: {records / seconds:,.0f} records/s, {used / records * 1e9:,.0f} ns of CPU a record"


async def fill(bootstrap: str, records: int) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
    async with Producer(bootstrap, linger_ms=50) as producer:
        value = os.urandom(RECORD_BYTES)
        for number in range(records):
            await producer.send(TOPIC, value, partition=number % PARTITIONS)


def session() -> SparkSession:
    """As somebody's own job starts one. Not `spark_session`: that one's Java is set for audits of a few seconds."""
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
    tune_allocator()  # as a task does
    answer = fetch_answer([RECORD_BYTES] * RECORDS_A_BATCH)
    varied = fetch_answer([random.Random(n).randint(50, 150) for n in range(RECORDS_A_BATCH)])
    decoded = [
        decoding("to Arrow", lambda: to_arrow(answer), 50),
        decoding("to Arrow, of 50 to 150 B", lambda: to_arrow(varied), 50),
        decoding("to records", lambda: decode_fetched(answer, "t", 0, 0), 20),
    ]
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
    print("\n".join([*decoded, *spark, environment()]))


if __name__ == "__main__":
    main()
