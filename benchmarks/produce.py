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

from benchmarks.load import RECORD_BYTES, Load
from benchmarks.measure import CpuMeter, Latency, Throughput, precise_loop
from benchmarks.raw_pipeline import raw_pipeline
from benchmarks.report import benchmark_parser, publish, table
from replog.client.admin import Admin
from replog.client.producing.producer import Delivery, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.allocator import tune_allocator

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
    """Records at a fixed rate, each timed from when it was due. The producer chooses their partitions."""

    async def send(topic: str, _partition: int, record: bytes) -> Delivery:
        return await producer.send(topic, record)

    async with Load(send, TOPIC, 1, per_second) as load:
        await asyncio.sleep(seconds)
    if load.failed:
        raise RuntimeError(f"{len(load.failed)} records were not stored: {load.failed[0]}")
    return load.latency()


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


def shown(report: dict[str, Any]) -> str:
    sides = {"raw sockets": report["raw"], "replog": report["replog"]}
    spread = ["–".join(f"{pick(side['all_mb_per_second']):.0f}" for pick in (min, max)) for side in sides.values()]
    cpu = {name: side["cpu_seconds_per_gb"] for name, side in sides.items()}
    rows = [
        ["throughput, MB/s", *(f"{side['mb_per_second']:.0f}" for side in sides.values())],
        ["  lowest–highest run", *spread],
        ["CPU, seconds per GB", *(f"{sum(used.values()):.1f}" for used in cpu.values())],
        *(
            [f"latency {label}, ms", *(f"{side['latency'][f'{label}_ms']:.2f}" for side in sides.values())]
            for label in ("p50", "p99")
        ),
    ]
    lines = [table(["acks=all, 3 replicas, 1 KiB records", *sides], rows)]
    for name, used in cpu.items():
        shares = ", ".join(f"{process} {seconds:.1f}" for process, seconds in used.items())
        lines.append(f"CPU seconds per GB, {name}: {shares}")
    verdict = "as expected" if report["ratio"] >= EXPECTED_RATIO else "below what is expected: see where the CPU goes"
    lines.append(f"replog / raw: {report['ratio']:.2f} (expected: at least {EXPECTED_RATIO}; {verdict})")
    return "\n".join(lines)


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
    publish("produce", shown(report), report, options)


if __name__ == "__main__":
    main()
