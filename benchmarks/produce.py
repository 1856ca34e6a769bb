"""What producing costs: acks=all and three replicas, beside the same pipeline over raw sockets, in one run.

Throughput: 1 KiB records as fast as they are acknowledged, in batches of up to 1 MiB; the raw pipeline sends messages
of 1 MiB. Latency: 1,000 records of 1 KiB a second whatever happens, each timed from when it was due. Both pipelines
are a leader and two followers as processes that write files and do not fsync; they take turns, so that a machine that
changes its mind does so to both. Run it with `make bench`.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import CpuMeter, Latency, Throughput, environment, precise_loop
from benchmarks.raw_pipeline import raw_pipeline
from benchmarks.report import benchmark_parser, show_report
from replog.client.admin import Admin
from replog.client.producing.producer import Delivery, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.options import tune_allocator

RECORD_BYTES = 1024
BATCH_BYTES = 1 << 20
IN_FLIGHT = 16
WARM_UP_BYTES = 32 << 20
EXPECTED_RATIO = 0.2
TOPIC = "benchmark"


async def replog_throughput(producer: Producer, total_bytes: int, pids: dict[str, int]) -> Throughput:
    """Send records as fast as the producer takes them; done when the last one is acknowledged."""
    record = os.urandom(RECORD_BYTES)
    records = total_bytes // RECORD_BYTES
    last_of_batch: list[Delivery] = []
    meter, started = CpuMeter(pids), time.perf_counter()
    for _ in range(records):
        delivery = await producer.send(TOPIC, record)
        if delivery.starts_batch:
            last_of_batch.append(delivery)
    await producer.flush()
    run = Throughput(records * RECORD_BYTES, time.perf_counter() - started, meter.used())
    for delivery in last_of_batch:
        delivery.result()
    return run


async def replog_latency(producer: Producer, per_second: int, seconds: float) -> Latency:
    """Send records at a fixed rate and time each from when it was due."""
    record = os.urandom(RECORD_BYTES)
    taken: list[float] = []

    async def acknowledged(delivery: Delivery, due: float) -> None:
        await delivery
        taken.append(time.perf_counter() - due)

    async with asyncio.TaskGroup() as group:
        first = time.perf_counter() + 0.01
        for number in range(int(per_second * seconds)):
            due = first + number / per_second
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            group.create_task(acknowledged(await producer.send(TOPIC, record), due))
    return Latency.of(taken)


async def measure(
    cluster: LocalCluster, directory: Path, options: argparse.Namespace, note: Callable[[str], None]
) -> Any:
    """Every figure, raw and replog in turn."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, partitions=options.partitions, replication_factor=3)
    await asyncio.to_thread(cluster.wait_for_full_isr, TOPIC)
    pids = {"client": os.getpid(), **{member.name: member.pid or 0 for member in cluster.state.members}}
    raw, ours = [], []
    async with (
        Producer(cluster.bootstrap, batch_size=BATCH_BYTES, linger_ms=5) as bulk,
        Producer(cluster.bootstrap) as prompt,
    ):
        await replog_throughput(bulk, WARM_UP_BYTES, pids)
        for number in range(options.runs):
            note(f"throughput, run {number + 1} of {options.runs}")
            raw.append(await asyncio.to_thread(_raw_throughput, directory, options.mebibytes << 20))
            ours.append(await replog_throughput(bulk, options.mebibytes << 20, pids))
        note("latency")
        raw_latency = await asyncio.to_thread(_raw_latency, directory, options.rate, options.seconds)
        await replog_latency(prompt, options.rate, 1.0)
        our_latency = await replog_latency(prompt, options.rate, options.seconds)
    return {"raw": _figures(raw, raw_latency), "replog": _figures(ours, our_latency)}


def _raw_throughput(directory: Path, total_bytes: int) -> Throughput:
    with tempfile.TemporaryDirectory(dir=directory) as files, raw_pipeline(Path(files)) as pipeline:
        pipeline.throughput(BATCH_BYTES, WARM_UP_BYTES, IN_FLIGHT)
        return pipeline.throughput(BATCH_BYTES, total_bytes, IN_FLIGHT)


def _raw_latency(directory: Path, rate: int, seconds: float) -> Latency:
    with tempfile.TemporaryDirectory(dir=directory) as files, raw_pipeline(Path(files)) as pipeline:
        pipeline.latency(RECORD_BYTES, rate, 1.0)
        return pipeline.latency(RECORD_BYTES, rate, seconds)


def _figures(runs: Sequence[Throughput], latency: Latency) -> dict[str, Any]:
    """The median run, and the others' rates."""
    median = sorted(runs, key=lambda run: run.mb_per_second)[len(runs) // 2]
    return {
        "mb_per_second": median.mb_per_second,
        "all_mb_per_second": [run.mb_per_second for run in runs],
        "cpu_seconds_per_gb": median.cpu_per_gb,
        "latency": asdict(latency),
    }


def show(report: dict[str, Any], console: Console) -> None:
    raw, ours = report["raw"], report["replog"]
    table = Table("", "raw sockets", "replog", title="acks=all, 3 replicas, 1 KiB records")
    table.add_row("throughput, MB/s", f"{raw['mb_per_second']:.0f}", f"{ours['mb_per_second']:.0f}")
    spread = ["–".join(f"{pick(side['all_mb_per_second']):.0f}" for pick in (min, max)) for side in (raw, ours)]
    table.add_row("  lowest–highest run", *spread)
    cpu = [sum(side["cpu_seconds_per_gb"].values()) for side in (raw, ours)]
    table.add_row("CPU, seconds per GB", *(f"{value:.1f}" for value in cpu))
    for label, key in (("p50", "p50_ms"), ("p99", "p99_ms")):
        table.add_row(f"latency {label}, ms", *(f"{side['latency'][key]:.2f}" for side in (raw, ours)))
    console.print(table)
    for name, side in (("raw sockets", raw), ("replog", ours)):
        shares = ", ".join(f"{process} {used:.1f}" for process, used in side["cpu_seconds_per_gb"].items())
        console.print(f"CPU seconds per GB, {name}: {shares}", highlight=False)
    verdict = "as expected" if report["ratio"] >= EXPECTED_RATIO else "below what is expected: see where the CPU goes"
    console.print(
        f"replog / raw: {report['ratio']:.2f} (expected: at least {EXPECTED_RATIO}; {verdict})", highlight=False
    )


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3, help="of the throughput, each of both pipelines")
    parser.add_argument("--mebibytes", type=int, default=256, help="of records in a throughput run")
    parser.add_argument("--rate", type=int, default=1000, help="records a second for the latency")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long to measure the latency")
    options = parser.parse_args()
    console = Console(stderr=True)
    tune_allocator()
    directory = Path(tempfile.mkdtemp(prefix="replog-bench-"))
    cluster = LocalCluster(directory / "cluster", brokers=3)
    try:
        cluster.up(progress=console.print)
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            report = runner.run(measure(cluster, directory, options, console.print))
    finally:
        cluster.down()
        shutil.rmtree(directory, ignore_errors=True)
    report["ratio"] = statistics.median(report["replog"]["all_mb_per_second"]) / statistics.median(
        report["raw"]["all_mb_per_second"]
    )
    report["environment"] = environment()
    show_report(report, show, options)


if __name__ == "__main__":
    main()
