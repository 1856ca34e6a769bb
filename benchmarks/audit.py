"""Measures audits, and other programs that read the same bytes, in one run.

First all levels, `sha256sum` of the same files, and Kafka's DumpLogSegments on one segment, with `--gib` a replica, all
from memory, with all cores and pinned to one. Then each level at growing sizes: from memory if the largest size has
room there, otherwise all from disk. Audits run in a session that has done a small audit of each level before; the start
of the JVM of Kafka's tool is subtracted. Figures are medians of rounds in which all take turns. Run it with
`make bench-audit`.
"""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.audit_logs import REPLICAS, Replicas, forget_all, read_all
from benchmarks.measure import descendants
from benchmarks.memory import memory
from benchmarks.report import benchmark_parser, publish, table
from benchmarks.storage import KIB, MIB
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT, LEVELS
from spark_jobs.session import spark_session
from tests.interop.kafka import Kafka as Programs
from tests.interop.kafka import NoKafka

GIB = 1 << 30
SMALL_LOG = MIB  # bytes of the log that warms a session up
CPUS = sorted(os.sched_getaffinity(0))
CORES = tuple(dict.fromkeys([len(CPUS), 1]))
IN_MEMORY = 0.6  # the share of free memory above which everything is read from disk
MIN_GIB = 0.0625
LINEAR = 1.2  # the factor by which a byte may take longer in a larger log
SHA256SUM, OPENSSL, DUMP = "sha256sum", "openssl sha256", "DumpLogSegments"
KAFKA_JVM = (  # the options of bin/kafka-dump-log.sh
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15",
)  # fmt: skip
BATCH_BYTES = 16 * KIB
TIMEOUT_S = 3600

Note = Callable[[str], None]
Figure = dict[str, Any]


@contextmanager
def session(cores: int, small: Replicas) -> Iterator[SparkSession]:
    """Start Spark on so many cores, and run every level once; then pin it and this process to them."""
    spark = spark_session("benchmark", f"local[{cores}]")
    try:
        for level in LEVELS:
            audit(spark, small.directories, (), level)
        pin(cores)
        yield spark
    finally:
        pin(len(CPUS))
        spark.stop()


def pin(cores: int) -> None:
    """Pin all threads of this process, and of all that it has started, to the first CPUs."""
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # it has ended
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(task), CPUS[:cores])


class Kafka:
    """Kafka's DumpLogSegments. Raises NoKafka if it cannot be installed."""

    def __init__(self, small: Path) -> None:
        self._programs = Programs()
        self._small = small

    def seconds(self, log: Path) -> float:
        """Return the seconds for one segment, without the start of the JVM."""
        return self._dump(log) - self._dump(self._small)

    def _dump(self, log: Path) -> float:
        started = time.perf_counter()
        with Path(os.devnull).open("wb") as nowhere:
            arguments = ("--deep-iteration", "--files", log)
            dumping = self._programs.start("kafka.tools.DumpLogSegments", *arguments, output=nowhere, jvm=KAFKA_JVM)
        assert dumping.wait(TIMEOUT_S) == 0, dumping.args
        return time.perf_counter() - started


def hashed(command: Sequence[str], files: Sequence[Path], cores: int) -> float:
    """Return the seconds for a hash of each file, `cores` files at once."""
    names, started = "\0".join(map(str, files)), time.perf_counter()
    one_by_one = ["xargs", "-0", "-n", "1", "-P", str(cores), *command]
    subprocess.run(one_by_one, input=names.encode(), stdout=subprocess.DEVNULL, check=True, timeout=TIMEOUT_S)
    return time.perf_counter() - started


def audited(spark: SparkSession, replicas: Replicas, level: str) -> tuple[float, int]:
    """Return the seconds of an audit, and the bytes that it says it read."""
    started = time.perf_counter()
    result = audit(spark, replicas.directories, (), level)
    seconds = time.perf_counter() - started
    assert result.verdict == CONSISTENT, (result.verdict, result.findings)
    return seconds, sum(result.bytes_read.values())


class Bench:
    """Measures with replicas in `directory`, which decides the file system."""

    def __init__(self, directory: Path, rounds: int, note: Note) -> None:
        self._replicas = Replicas(directory / "replicas", BATCH_BYTES)
        self._small = Replicas(directory / "small", BATCH_BYTES)
        self._rounds = rounds
        self._note = note

    def run(self, gib: float, sizes: Sequence[float]) -> dict[str, Any]:
        self._small.grow(SMALL_LOG)
        in_memory = fits(max(sizes))
        compared: list[Figure] = []
        grown: list[Figure] = []
        missing = None
        for size in sorted({gib, *sizes}):
            self._note(f"making three replicas of {size:g} GiB")
            self._replicas.grow(int(size * GIB))
            if size == gib:
                compared, missing = self.compare()
            if size in sizes:
                grown += self.levels(size, in_memory=in_memory)
        return {
            "gib": gib,
            "in_memory": {"compared": fits(gib), "grown": in_memory},
            "compared": compared,
            "grown": grown,
            "targets": targets(compared, grown),
            "no_kafka": missing,
        }

    def compare(self) -> tuple[list[Figure], str | None]:
        """Measure everything at one size, with all cores and with one; return also why Kafka is missing."""
        kafka, missing = None, None
        try:
            kafka = Kafka(self._small.first_log())
        except NoKafka as error:
            missing = str(error)
        files, first = self._replicas.files(), self._replicas.first_log()
        hashes = {SHA256SUM: [SHA256SUM]}
        if shutil.which("openssl"):
            hashes[OPENSSL] = ["openssl", "dgst", "-sha256"]
        figures = []
        for cores in CORES:
            runs_of: dict[str, list[tuple[float, int]]] = defaultdict(list)
            with session(cores, self._small) as spark:
                for number in range(self._rounds):
                    self._note(f"round {number + 1} of {self._rounds} on {cores} cores: levels")
                    read_all(files)
                    for level in LEVELS:
                        runs_of[level].append(audited(spark, self._replicas, level))
                    for name, command in hashes.items():
                        self._note(f"round {number + 1} of {self._rounds} on {cores} cores: {name}")
                        runs_of[name].append((hashed(command, files, cores), self._replicas.all_bytes))
                    if kafka is not None:
                        self._note(f"round {number + 1} of {self._rounds} on {cores} cores: {DUMP}")
                        runs_of[DUMP].append((kafka.seconds(first), first.stat().st_size))
            figures += [self._figure(name, cores, runs) for name, runs in runs_of.items()]
        return figures, missing

    def levels(self, size: float, *, in_memory: bool) -> list[Figure]:
        """Measure every level at one size, with all cores."""
        runs_of: dict[str, list[tuple[float, int]]] = defaultdict(list)
        files = self._replicas.files()
        with session(CORES[0], self._small) as spark:
            for number in range(self._rounds):
                if in_memory:
                    read_all(files)
                for level in LEVELS:
                    self._note(f"{size:g} GiB, round {number + 1} of {self._rounds}: {level}")
                    if not in_memory:
                        forget_all(files)
                    runs_of[level].append(audited(spark, self._replicas, level))
        return [self._figure(name, CORES[0], runs) | {"gib": size} for name, runs in runs_of.items()]

    def _figure(self, name: str, cores: int, runs: list[tuple[float, int]]) -> Figure:
        seconds, read = statistics.median(seconds for seconds, _ in runs), runs[0][1]
        return {
            "name": name,
            "cores": cores,
            "seconds": seconds,
            "bytes_read": read,
            "mb_per_second": read / 1e6 / seconds,
            "share_of_log": read / self._replicas.log_bytes,
        }


def fits(gib: float) -> bool:
    """Return True if three replicas of that size stay in memory."""
    return len(REPLICAS) * gib * GIB < IN_MEMORY * memory("MemAvailable")


def targets(compared: Sequence[Figure], grown: Sequence[Figure]) -> list[Figure]:
    """Return each target, with the figure and whether it is met."""
    by_name = {(figure["name"], figure["cores"]): figure for figure in compared}
    largest = {figure["name"]: figure for figure in grown}  # sizes grow, so the last stays
    made: list[tuple[str, float, str, bool]] = []
    for cores in CORES:
        ratio = by_name[SHA256SUM, cores]["seconds"] / by_name["deep", cores]["seconds"]
        made.append((f"{SHA256SUM} / deep, seconds, cores: {cores}", ratio, "at least 1", ratio >= 1))
    if (DUMP, 1) in by_name:
        ratio = by_name["deep", 1]["mb_per_second"] / by_name[DUMP, 1]["mb_per_second"]
        made.append((f"deep / {DUMP}, bytes a second of one core", ratio, "at least 5", ratio >= 5))
    for level in ("digest", "index"):
        share = max(figure["share_of_log"] for figure in [*compared, *grown] if figure["name"] == level)
        made.append((f"{level}: bytes read of the log's, %", share * 100, "at most 1", share <= 0.01))
    ratio = largest["deep"]["seconds"] / largest["digest"]["seconds"]
    made.append((f"deep / digest, seconds, at {largest['deep']['gib']:g} GiB", ratio, "at least 5", ratio >= 5))
    for level in LEVELS:
        steps = list(pairwise(figure for figure in grown if figure["name"] == level))
        for before, after in steps[-1:]:
            ratio = after["seconds"] / before["seconds"] / (after["bytes_read"] / before["bytes_read"])
            title = f"{level}: seconds / bytes read, {after['gib']:g} GiB to {before['gib']:g}"
            made.append((title, ratio, f"at most {LINEAR}", ratio <= LINEAR))
    return [dict(zip(("what", "found", "wanted", "met"), target, strict=True)) for target in made]


def shown(report: dict[str, Any]) -> str:
    gib, state = report["gib"], report["in_memory"]
    figures = ("cores", "seconds", "MB/s", "bytes read", "of the log")
    compared = [[figure["name"], *_cells(figure)] for figure in report["compared"]]
    in_order = sorted(report["grown"], key=lambda figure: LEVELS.index(figure["name"]))
    grown = [[figure["name"], f"{figure['gib']:g}", *_cells(figure)] for figure in in_order]
    wanted = [
        [target["what"], f"{target['found']:.3g}", f"{target['wanted']} {'✓ met' if target['met'] else '✗ missed'}"]
        for target in report["targets"]
    ]
    parts = [
        f"Three replicas of {gib:g} GiB, {_from(state['compared'])}:",
        table(["", *figures], compared),
        f"Growing, {_from(state['grown'])}:",
        table(["", "GiB a replica", *figures], grown),
        table(["What is aimed at", "found", "wanted"], wanted),
    ]
    if report["no_kafka"] is not None:
        parts.insert(2, f"Without Kafka's {DUMP}: {report['no_kafka']}")
    return "\n\n".join(parts)


def _from(in_memory: bool) -> str:
    return "all files in the page cache" if in_memory else "no file in the page cache"


def _cells(figure: Figure) -> list[str]:
    return [
        str(figure["cores"]),
        f"{figure['seconds']:,.2f}",
        f"{figure['mb_per_second']:,.0f}",
        f"{figure['bytes_read']:,}",
        f"{figure['share_of_log']:.2%}",
    ]


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--gib", type=float, default=2.0, help="of a replica that is compared with other programs")
    parser.add_argument("--sizes", default="1,2,4,8", help="of a replica that grows, in GiB, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="for the replicas; the system's temporary one if left out")
    options = parser.parse_args()
    sizes = sorted(float(size) for size in options.sizes.split(","))
    if min(options.gib, *sizes) < MIN_GIB or options.rounds < 1:
        parser.error(f"needs --rounds 1 and sizes of {MIN_GIB} GiB at least")
    needed = int(len(REPLICAS) * max(options.gib, *sizes) * GIB * 1.05)
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="replog-bench-", dir=options.directory, ignore_cleanup_errors=True) as made:
        directory = Path(made)
        free = shutil.disk_usage(directory).free
        if free < needed:
            parser.error(f"{directory} has {free >> 20:,} MiB free, {needed >> 20:,} MiB are needed: see --directory")
        with console.status("") as status:
            bench = Bench(directory, options.rounds, status.update)
            report = bench.run(options.gib, sizes)
    publish("audit", shown(report), report, options)


if __name__ == "__main__":
    main()
