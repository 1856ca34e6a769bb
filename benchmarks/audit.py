"""Measures each level of an audit, and other programs that read the same bytes, in one run.

Three replicas of one partition are as brokers leave them, in batches of 16 KiB that nothing can compress. `sha256sum`
and openssl hash all of their files. Audits run in a session that has done a small audit of each level before. Figures
are medians of rounds in which all take turns. Run it with `make bench-audit`; `taskset -c 0` before it is one core,
`--gib 8 --cold` reads from disk.
"""

import os
import random
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import Note, benchmark_parser, homes, parsed, publish, table
from replog.client.records import BatchBuilder
from replog.config.topic import TopicConfig
from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, OffsetCheckpoint
from replog.log.log import Log
from replog.topic import TopicPartition
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT, LEVELS
from spark_jobs.session import spark_session

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
REPLICAS = (1, 2, 3)
BATCH_BYTES, RECORD_BYTES = 16 * KIB, 1000
SMALL_LOG = MIB  # bytes of the log that warms a session up
MIN_GIB = 0.0625
CORES = len(os.sched_getaffinity(0))
HASHES = {"sha256sum": ["sha256sum"], "openssl sha256": ["openssl", "dgst", "-sha256"]}
TIMEOUT_S = 3600
_PARTITION = TopicPartition("benchmark", 0)

Measured = tuple[float, int]  # seconds, and bytes that were read


class Replicas:
    """Three equal replicas of `size` bytes under `root`: our log's defaults, synced, each high watermark at the end."""

    def __init__(self, root: Path, size: int) -> None:
        self.directories = {replica: root / str(replica) for replica in REPLICAS}
        first, *others = (directory / _PARTITION.directory_name for directory in self.directories.values())
        first.mkdir(parents=True)
        log = Log.open(first, TopicConfig(), clean=True)
        rng, now_ms = random.Random(1), 1_700_000_000_000
        values = rng.randbytes(8 * MIB)
        while log.size < size:
            now_ms += 1
            builder = BatchBuilder(BATCH_BYTES)
            while builder.append(now_ms, None, values[(at := rng.randrange(7 * MIB)) : at + RECORD_BYTES], ()):
                pass
            log.append_as_leader(b"".join(builder.build()), leader_epoch=0, now_ms=now_ms)
        log.close()
        for other in others:
            shutil.copytree(first, other)
        for directory in self.directories.values():
            OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).write({_PARTITION: log.log_end_offset})
            OffsetCheckpoint(directory / LOG_START_CHECKPOINT).write({})
        os.sync()
        self.files = [path for directory in self.directories.values() for path in sorted(directory.glob("*/*.*"))]
        self.log_bytes = size_of(path for path in self.files if path.suffix == LOG_SUFFIX)


def size_of(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def place(paths: Iterable[Path], *, cold: bool) -> None:
    """Read files, so that they are in memory; or drop them, so that they are only on disk."""
    buffer = bytearray(MIB)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            if cold:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while not cold and file.readinto(buffer):
                pass


def hashed(command: list[str], files: list[Path]) -> Measured:
    """Hash each file, one a core at once."""
    names, started = "\0".join(map(str, files)), time.perf_counter()
    one_by_one = ["xargs", "-0", "-n", "1", "-P", str(CORES), *command]
    subprocess.run(one_by_one, input=names.encode(), stdout=subprocess.DEVNULL, check=True, timeout=TIMEOUT_S)
    return time.perf_counter() - started, size_of(files)


def measure(directory: Path, gib: float, rounds: int, note: Note, *, cold: bool) -> dict[str, Any]:
    note(f"making three replicas of {gib:g} GiB")
    replicas, small = Replicas(directory / "replicas", int(gib * GIB)), Replicas(directory / "small", SMALL_LOG)
    works: dict[str, Callable[[], Measured]] = {}
    spark = spark_session("benchmark", f"local[{CORES}]")

    def audited(level: str) -> Measured:
        started = time.perf_counter()
        result = audit(spark, replicas.directories, (), level)
        seconds = time.perf_counter() - started
        assert result.verdict == CONSISTENT, (result.verdict, result.findings)
        return seconds, sum(result.bytes_read.values())

    for level in LEVELS:
        works[level] = lambda level=level: audited(level)  # type: ignore[misc]
        audit(spark, small.directories, (), level)
    for name, command in HASHES.items():
        if shutil.which(command[0]):
            works[name] = lambda command=command: hashed(command, replicas.files)  # type: ignore[misc]
    runs: dict[str, list[Measured]] = defaultdict(list)
    for number in range(rounds):
        for name, work in works.items():
            note(f"round {number + 1} of {rounds}: {name}")
            place(replicas.files, cold=cold)
            runs[name].append(work())
    spark.stop()
    figures = {
        name: {"seconds": median(seconds for seconds, _ in of_name), "bytes_read": of_name[0][1]}
        for name, of_name in runs.items()
    }
    return {"log_bytes": replicas.log_bytes, "cores": CORES, "cold": cold, "figures": figures}


def shown(report: dict[str, Any], gib: float) -> str:
    rows = []
    for name, figure in report["figures"].items():
        seconds, read = figure["seconds"], figure["bytes_read"]
        share = f"{read / report['log_bytes']:.4%}"
        rows.append([name, f"{seconds:,.2f}", f"{read / 1e6 / seconds:,.0f}", f"{read:,}", share])
    where = "only on disk" if report["cold"] else "in memory"
    head = f"Three replicas of {gib:g} GiB, {where}, read by {report['cores']} cores:"
    return f"{head}\n\n{table(['', 'seconds', 'MB/s', 'bytes read', 'of the log'], rows)}"


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--gib", type=float, default=2.0, help="of a replica")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="read everything from disk")
    parser.add_argument("--directory", type=Path, help="for the replicas; the system's temporary one if left out")
    options, note = parsed(parser)
    if options.gib < MIN_GIB or options.rounds < 1:
        parser.error(f"needs --rounds 1 and {MIN_GIB} GiB at least")
    with homes(options.directory) as directory:
        free, needed = shutil.disk_usage(directory).free, int(len(REPLICAS) * options.gib * GIB * 1.05)
        if free < needed:
            parser.error(f"{directory} has {free >> 20:,} MiB free, {needed >> 20:,} MiB are needed: see --directory")
        report = measure(directory, options.gib, options.rounds, note, cold=options.cold)
    publish("audit", shown(report, options.gib), report, options)


if __name__ == "__main__":
    main()
