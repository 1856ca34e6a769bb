"""What TLS and metrics cost: the same work on two clusters of three brokers on this machine, a plain and a secure one.

Records of 1 KiB with acks=all to a topic of six partitions with three replicas each: as many as go through, what was
written is then read, and one at a time. Then 200 consumers wait for records that do not come: what their long polls
take of a broker. The clusters take turns, in every order: the disk still writes what the one before left. The middle of
all rounds is shown. Then a broker of the plain one is asked for its metrics, again and again.

Run it with `make bench-extras`.
"""

import asyncio
import os
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import cycle, islice, permutations
from pathlib import Path

from rich.console import Console

from benchmarks.measure import CpuMeter, cpu_seconds
from benchmarks.memory import fill_page_cache
from benchmarks.report import benchmark_parser, publish, table
from replog.client import Admin, Consumer, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.http2.transport import H2Transport
from replog.topic import TopicPartition

KINDS = ("plain", "TLS")
RECORD = os.urandom(1024)
TOPIC, PARTITIONS, BROKERS = "cost", 6, 3
RECORDS = 100_000  # of a round, as many as go through
SINGLES = 1000  # of a round, one at a time
SCRAPES = 200
IDLE, IDLE_S = 200, 3.0  # consumers, and how long they are watched once all of them wait
ROUNDS = 12
NO_AUTHORIZER = {"authorizer.class.name": ""}  # which a secure cluster has, too

Figures = dict[str, float]


async def measured(cluster: LocalCluster) -> Figures:
    transport = H2Transport(cluster.tls)
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    async with Consumer(cluster.bootstrap, transport=transport) as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        async with Producer(cluster.bootstrap, transport=transport, batch_size=128 << 10, linger_ms=5) as producer:
            written_s = await _write(producer)
        for partition, end in ends.items():
            consumer.seek(partition, end)
        read_s = await _read(consumer)
    async with Producer(cluster.bootstrap, transport=transport, linger_ms=0) as producer:
        waits = [await _one(producer, number % PARTITIONS) for number in range(SINGLES)]
    megabytes = RECORDS * len(RECORD) / 1e6
    return {
        "write MB/s": megabytes / written_s,
        "read MB/s": megabytes / read_s,
        "p50 ms": statistics.median(waits),
        f"{IDLE} idle consumers, % of a core per broker": await _idle(cluster, transport),
    }


async def _write(producer: Producer) -> float:
    begin = time.perf_counter()
    deliveries = []
    for number in range(0, RECORDS, 100):
        deliveries += await producer.send_many(TOPIC, [RECORD] * 100, partition=number // 100 % PARTITIONS)
    for delivery in deliveries:
        await delivery
    return time.perf_counter() - begin


async def _read(consumer: Consumer) -> float:
    begin = time.perf_counter()
    count = 0
    while count < RECORDS:
        count += len(await consumer.fetch())
    return time.perf_counter() - begin


async def _one(producer: Producer, partition: int) -> float:
    begin = time.perf_counter()
    await (await producer.send(TOPIC, RECORD, partition=partition))
    return (time.perf_counter() - begin) * 1000


async def _idle(cluster: LocalCluster, transport: H2Transport) -> float:
    """What a broker uses, the mean of all, while consumers wait at the ends of the partitions that it leads."""

    async def poll(consumer: Consumer) -> None:
        while True:
            await consumer.fetch()

    async with AsyncExitStack() as ending:
        consumers = [
            await ending.enter_async_context(Consumer(cluster.bootstrap, transport=transport)) for _ in range(IDLE)
        ]
        for number, consumer in enumerate(consumers):
            partition = TopicPartition(TOPIC, number % PARTITIONS)
            consumer.assign([partition])
            consumer.seek(partition, (await consumer.end_offsets([partition]))[partition])
        polls = [asyncio.create_task(poll(consumer)) for consumer in consumers]
        await asyncio.sleep(1)
        processes = {member.name: member.process for member in cluster.state.brokers}
        meter = CpuMeter({name: process.pid for name, process in processes.items() if process is not None})
        await asyncio.sleep(IDLE_S)
        percent = meter.percent()
        for task in polls:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
    return statistics.mean(percent.values())


def scrape_ms(cluster: LocalCluster) -> float:
    """What a broker uses for one, the mean of many."""
    broker = cluster.state.brokers[0]
    assert broker.process is not None
    before = cpu_seconds(broker.process.pid)
    for _ in range(SCRAPES):
        with urllib.request.urlopen(f"http://{cluster.metrics_address(broker)}/metrics", timeout=10) as answer:
            answer.read()
    return (cpu_seconds(broker.process.pid) - before) / SCRAPES * 1000


async def compare(clusters: dict[str, LocalCluster], rounds: int, note: Callable[[str], None]) -> dict[str, Figures]:
    for cluster in clusters.values():
        async with Admin(cluster.bootstrap, transport=H2Transport(cluster.tls)) as admin:
            await admin.create_topic(TOPIC, partitions=PARTITIONS)
        fill_page_cache(note)
        await measured(cluster)  # which warms it up
    all_figures: dict[str, list[Figures]] = {kind: [] for kind in clusters}
    for order in islice(cycle(permutations(KINDS)), rounds):
        fill_page_cache(note)
        for kind in order:
            all_figures[kind].append(await measured(clusters[kind]))
    return {
        kind: {name: statistics.median(round_[name] for round_ in figures) for name in figures[0]}
        for kind, figures in all_figures.items()
    }


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    note = partial(Console(stderr=True).print, highlight=False)
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory, "plain"), BROKERS) as plain,
        LocalCluster(Path(directory, "tls"), BROKERS, NO_AUTHORIZER, secure=True) as secure,
    ):
        figures = asyncio.run(compare(dict(zip(KINDS, (plain, secure), strict=True)), options.rounds, note))
        scraped_ms = scrape_ms(plain)
    rows = [
        [name, f"{value:.2f}", f"{figures['TLS'][name]:.2f} ({(figures['TLS'][name] / value - 1) * 100:+.0f} %)"]
        for name, value in figures["plain"].items()
    ]
    told = f"To be asked for its metrics costs a broker {scraped_ms:.1f} ms of CPU."
    publish(
        "extras",
        f"{table(['', *KINDS], rows)}\n\n{told}",
        {"figures": figures, "a scrape, ms of a broker's CPU": scraped_ms},
        options,
    )


if __name__ == "__main__":
    main()
