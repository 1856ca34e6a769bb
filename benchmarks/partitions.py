"""Measures thousands of partitions in replog and in Apache Kafka: three brokers, three replicas, in one run.

Systems take turns, smallest numbers first. Each runs every phase in the life of its partitions. While they are created
and deleted, a separate process produces steadily, and the waits of its records are measured. A phase has a time limit,
and so has a whole cluster; one that does not finish has the result "not within N s".

Run it with `make bench-partitions`; Kafka's jars come from Maven Central into `~/.cache/replog`. The largest runs were
`--only replog --partitions 20000 --limit 1200`, as many as a cluster may have, 10000 of one topic, and 2000 after
`ulimit -n 1024`.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import product
from statistics import median

from aiokafka.errors import KafkaError

from benchmarks.harness import (
    CpuMeter,
    Figures,
    Note,
    benchmark_parser,
    fill_page_cache,
    homes,
    parsed,
    precise_loop,
    publish,
    rss_bytes,
    table,
)
from benchmarks.peers.kafka import KafkaPeer
from benchmarks.peers.peer import BROKERS, CONTROLLER, FAILED, CannotRun, DescribedPartition, broker_name, in_sync, load
from benchmarks.peers.replog import ReplogPeer
from replog.errors import ReplogError
from replog.topic import MAX_PARTITIONS

Cluster = ReplogPeer | KafkaPeer
SYSTEMS: dict[str, type[Cluster]] = {kind.name: kind for kind in (ReplogPeer, KafkaPeer)}
TOPIC = "many"  # and a number: each topic has as many partitions as replog allows it
PER_SECOND = 1000
STEADY, STEADY_PER_SECOND = ("steady", 6), 100  # the steady producer's topic
VICTIM = 2  # the broker that is killed
WARM_UP_S = 5.0  # the first record of each partition and a JVM's compiler need it
SETTLE_S = 3.0
QUIET_S = 10.0  # the steady producer runs alone
AFTER_S = 1.0  # the steady producer still runs, so that delayed work counts
POLL_S, PAUSE = 0.05, 5  # the least pause between two looks at the state, and as a multiple of a look's time
PAUSE_BESIDE = 20  # the multiple for looks at disks while the steady producer runs, since a look takes CPU
MIB = 1 << 20
LONG, SHARE = {"start": 0.5, "create": 0.5}, 0.25  # the largest share of a cluster's time for a phase

Phases = dict[str, Figures]  # only phases that began


class Cell:
    """One cluster with one number of partitions."""

    def __init__(self, cluster: Cluster, partitions: int, seconds: float, idle_s: float, note: Note) -> None:
        """Load lasts for `seconds`, the idle phase for `idle_s`."""
        self._cluster = cluster
        self._partitions = partitions
        self._topics = {
            f"{TOPIC}-{first}": min(MAX_PARTITIONS, partitions - first)
            for first in range(0, partitions, MAX_PARTITIONS)
        }
        self._seconds = seconds
        self._idle_s = idle_s
        self._note = note
        self._figures: Phases = {}

    async def run(self, limit_s: float) -> Phases:
        """Run all phases that can begin within `limit_s`."""
        self._limit_s, self._deadline = limit_s, time.perf_counter() + limit_s
        try:
            if await self._phase("start", self._cluster.start):
                await self._life_of_topics()
        finally:
            await self._cluster.close()
        return self._figures

    async def _life_of_topics(self) -> None:
        await self._cluster.create(*STEADY)
        phases = {
            "quiet": self._quiet,
            "create": self._create,
            "load": self._load,
            "idle": self._idle,
            "fail_over": self._fail_over,
            "restart": self._restart,
            "delete": self._delete,
        }
        for name, phase in phases.items():
            if not await self._phase(name, phase) and phase == self._create:
                return  # the others need the topics

    async def _phase(self, name: str, body: Callable[[], Awaitable[Figures | None]]) -> bool:
        """Run a phase, and return True if it finished. Its time is that of the whole, unless it measures a part."""
        limit_s = min(self._limit_s * LONG.get(name, SHARE), self._deadline - time.perf_counter())
        where = f"{self._cluster.name}, {self._partitions} partitions, {name}"
        if limit_s <= 0:
            self._note(f"{where}: not begun, no time is left")
            return False
        started = time.perf_counter()
        try:
            async with asyncio.timeout(limit_s):
                figures = await body() or {}
                figures = {"seconds": time.perf_counter() - started, **figures}
        except TimeoutError:
            figures = {"not_within_s": round(time.perf_counter() - started)}
        except (ReplogError, KafkaError, OSError, ValueError, ExceptionGroup) as error:
            figures = {"failed": f"{error!r}"[:500]}
        self._figures[name] = figures
        self._note(f"{where}: {figures}")
        return not figures.keys() & {"not_within_s", "failed"}

    async def _quiet(self) -> Figures:
        async with self._beside_a_producer() as figures:
            await asyncio.sleep(QUIET_S)
        return figures

    async def _create(self) -> Figures:
        """Create the topics, until every broker has every replica on its disk and all are in sync."""
        async with self._beside_a_producer() as figures:
            for topic, partitions in self._topics.items():
                await self._cluster.create(topic, partitions)
            await self._until_directories(lambda names: sum(map(_is_replica, names)) == self._partitions)
            await self._until(in_sync)
        return figures

    async def _load(self) -> Figures:
        async with load(self._cluster, self._topics, PER_SECOND) as sent:
            await asyncio.sleep(WARM_UP_S)
            meter, begun = CpuMeter(self._cluster.members), time.perf_counter()
            await asyncio.sleep(self._seconds)
            cpu = meter.percent()
        memory = {name: rss_bytes(pid) / MIB for name, pid in self._cluster.members.items()}
        return {
            **sent.figures(since=begun),
            "broker_percent": max(cpu[broker_name(broker)] for broker in BROKERS),
            "broker_mib": max(memory[broker_name(broker)] for broker in BROKERS),
            "controller_mib": memory[CONTROLLER],
        }

    async def _idle(self) -> Figures:
        """Measure idle CPU in percent of a core."""
        await asyncio.sleep(SETTLE_S)
        meter = CpuMeter(self._cluster.members)
        await asyncio.sleep(self._idle_s)
        used = meter.percent()
        return {
            "broker_percent": max(used[broker_name(broker)] for broker in BROKERS),
            "controller_percent": used[CONTROLLER],
        }

    async def _fail_over(self) -> Figures:
        """Kill a broker under load. The wait is that of records for what it led, due after the kill."""
        led = {number for number, state in enumerate(await self._described()) if state.leader == VICTIM}
        async with load(self._cluster, self._topics, PER_SECOND) as sent:
            await asyncio.sleep(WARM_UP_S)
            killed = time.perf_counter()
            await self._cluster.kill(VICTIM)
            await self._until(lambda states: all(state.leader not in (VICTIM, -1) for state in states))
            seconds = time.perf_counter() - killed
            await asyncio.sleep(max(1.0, self._partitions / PER_SECOND))
        waits = sent.waits(since=killed)
        return {
            "seconds": seconds,
            "led_wait_s": max((waits[number] for number in waits if number % self._partitions in led), default=0.0),
            "failed_records": sent.waits_us.count(FAILED),
        }

    async def _restart(self) -> None:
        """Restart the killed broker, until every replica is in sync."""
        await self._cluster.launch(VICTIM)
        await self._until(in_sync)

    async def _delete(self) -> Figures:
        """Delete the topics, until no broker has a directory under their names."""
        async with self._beside_a_producer() as figures:
            for topic in self._topics:
                await self._cluster.delete(topic)
            await self._until_directories(lambda names: not any(map(_is_replica, names)))
        return figures

    async def _described(self) -> list[DescribedPartition]:
        return [state for topic in self._topics for state in await self._cluster.describe(topic)]

    @asynccontextmanager
    async def _beside_a_producer(self) -> AsyncIterator[Figures]:
        """Measure the time of a block, and the waits of a steady producer's records meanwhile."""
        async with load(self._cluster, dict([STEADY]), STEADY_PER_SECOND) as steady:
            await asyncio.sleep(WARM_UP_S)
            figures: Figures = {}
            begun = time.perf_counter()
            yield figures
            figures["seconds"] = time.perf_counter() - begun
            await asyncio.sleep(AFTER_S)
        figures |= {f"steady_{name}": figure for name, figure in steady.figures(since=begun).items()}

    async def _until(self, condition: Callable[[list[DescribedPartition]], bool]) -> None:
        """Wait until all partitions, as a broker knows them, meet the condition."""

        async def ask() -> bool:
            try:
                states = await self._described()
            except (ReplogError, KafkaError, OSError):
                return False  # the broker that was asked is down
            return len(states) == self._partitions and condition(states)

        await self._poll(ask, PAUSE)

    async def _until_directories(self, condition: Callable[[list[str]], bool]) -> None:
        """Wait until the directories of every broker meet the condition."""

        async def look() -> bool:
            return all(condition(os.listdir(self._cluster.data_directory(broker))) for broker in BROKERS)

        await self._poll(look, PAUSE_BESIDE)

    async def _poll(self, ask: Callable[[], Awaitable[bool]], pause: float) -> None:
        """Ask until True, with pauses much longer than an answer takes, since asking takes CPU."""
        while True:
            asked = time.perf_counter()
            if await ask():
                return
            await asyncio.sleep(max(POLL_S, pause * (time.perf_counter() - asked)))


def _is_replica(name: str) -> bool:
    """Return True if it names a replica, and not the remains of one."""
    return name.startswith(f"{TOPIC}-") and name.rpartition("-")[2].isdecimal()


ROWS = (  # label, phase, figure
    ("created on every disk, s", "create", "seconds"),
    ("a steady producer's p99 before, ms", "quiet", "steady_p99_ms"),
    ("… meanwhile, ms", "create", "steady_p99_ms"),
    ("p50 at 1,000 records/s over all, ms", "load", "p50_ms"),
    ("p99, ms", "load", "p99_ms"),
    ("CPU of a broker then, % of a core", "load", "broker_percent"),
    ("memory of a broker, MiB", "load", "broker_mib"),
    ("memory of the controller, MiB", "load", "controller_mib"),
    ("idle CPU of a broker, % of a core", "idle", "broker_percent"),
    ("idle CPU of the controller, % of a core", "idle", "controller_percent"),
    ("leaderships off a killed broker, s", "fail_over", "seconds"),
    ("longest wait for an acknowledgement then, s", "fail_over", "led_wait_s"),
    ("killed broker restarted, all in sync, s", "restart", "seconds"),
    ("deleted on every disk, s", "delete", "seconds"),
    ("the steady producer's p99 meanwhile, ms", "delete", "steady_p99_ms"),
)


def cell(rounds: Sequence[Phases], phase: str, figure: str) -> str:
    """Show the median of the rounds, or that one of them did not finish."""
    of_rounds = [phases.get(phase, {}) for phases in rounds]
    for figures in of_rounds:
        if "not_within_s" in figures:
            return f"not within {figures['not_within_s']} s"
    if any("failed" in figures for figures in of_rounds):
        return "failed"
    values = [figures[figure] for figures in of_rounds if figure in figures]
    if not values:
        return "–"
    value = median(values)
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def shown(report: Mapping[str, Sequence[Phases]]) -> str:
    rows = [[label, *(cell(rounds, phase, figure) for rounds in report.values())] for label, phase, figure in ROWS]
    return table(["", *report], rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--partitions", default="6,100,1000,5000", help="numbers with commas between them")
    parser.add_argument("--only", choices=SYSTEMS)
    parser.add_argument("--rounds", type=int, default=1, help="of everything; the table has medians")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load that is timed")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds to look at the CPU of nothing")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a cluster")
    options, note = parsed(parser)
    names = [options.only] if options.only else list(SYSTEMS)
    counts = [int(count) for count in options.partitions.split(",")]
    report: dict[str, list[Phases]] = {f"{name}, {count:,}": [] for name in names for count in counts}
    # Removed only at the end, otherwise the next cluster's files would cost two to five times the CPU: ext4 looks for
    # room past every inode that was freed in the last minutes.
    with homes() as home:
        for number, count, name in product(range(options.rounds), counts, names):
            note(f"round {number + 1} of {options.rounds}: {name}, {count} partitions")
            fill_page_cache(note)
            try:
                cluster = SYSTEMS[name](home / f"{name}-{count}-{number}")
            except CannotRun as error:
                note(f"Without {name}: {error}")
                continue
            life = Cell(cluster, count, options.seconds, options.idle, note)
            with asyncio.Runner(loop_factory=precise_loop) as runner:
                report[f"{name}, {count:,}"].append(runner.run(life.run(options.limit)))
    publish("partitions", shown(report), report, options)


if __name__ == "__main__":
    main()
