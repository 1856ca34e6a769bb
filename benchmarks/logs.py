"""Measures what reads whole logs, and programs that only read the same bytes, in one run.

`storage` is recovery and cleaning, beside reads and CRCs. `audit` is each level of an audit, beside sha256sum and
openssl: three replicas of one partition are as brokers leave them, in batches of 16 KiB that nothing can compress, and
the Spark session has done a small audit of each level. Figures are medians of rounds in which all take turns. Run it
with `make bench-storage` and `make bench-audit`; `taskset -c 0` before it is one core, `--cold` reads from disk.
"""

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import median

from crc32c import crc32c

from benchmarks.harness import Figures, Note, benchmark_parser, homes, parsed, publish, table
from replog.client.records import BatchBuilder
from replog.config.processes import BrokerConfig
from replog.config.topic import TopicConfig
from replog.log.compaction.cleaning import Cleaning, CleanTask, find_cleanable
from replog.log.formats.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, BatchHeader, with_crc
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, OffsetCheckpoint
from replog.log.log import Log
from replog.topic import TopicPartition
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT, LEVELS
from spark_jobs.session import spark_session

KIB, MIB = 1 << 10, 1 << 20
RECOVERED = {"16 KiB": 16 * KIB, "1 MiB": MIB}  # bytes of a batch
CLEANED = ((KIB, 16), (100, 150))  # bytes of a record, records of a batch
PER_KEY, KEY_BYTES = 4, 16  # records of a key on average, of which a cleaning removes three
REPLICAS, AUDITED_BATCH, AUDITED_RECORD = (1, 2, 3), 16 * KIB, 1000
HASHES = {"sha256sum": ["sha256sum"], "openssl sha256": ["openssl", "dgst", "-sha256"]}
CORES = len(os.sched_getaffinity(0))
NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("benchmark", 0)

Works = dict[str, Callable[[], int]]
"""Each reads a log, or all of its replicas, once, and returns the number of bytes that it has read."""


class Bench:
    """Measures with logs of `size` bytes in `directory`, which decides the file system."""

    def __init__(self, directory: Path, size: int, rounds: int, note: Note, *, cold: bool = False) -> None:
        self._directory = directory
        self._size = size
        self._rounds = rounds
        self._note = note
        self._cold = cold
        self.figures: Figures = {}

    def _measure(self, works: Works, files: Iterable[Path], clock: Callable[[], float] = time.perf_counter) -> None:
        """Let all take turns, and note their medians."""
        runs: dict[str, list[float]] = defaultdict(list)
        for number in range(self._rounds):
            for name, work in works.items():
                self._note(f"round {number + 1} of {self._rounds}: {name}")
                _place(files, cold=self._cold)
                begun = clock()
                read = work()
                runs[name].append(clock() - begun)
                self.figures[name] = {"seconds": median(runs[name]), "bytes_read": read}

    def _fresh_log(self, config: TopicConfig) -> Log:
        return Log.open(Path(tempfile.mkdtemp(dir=self._directory)), config, clean=True)

    def storage(self) -> None:
        for label, size in RECOVERED.items():
            self._recovery(label, size)
        for record_bytes, per_batch in CLEANED:
            self._cleaning(record_bytes, per_batch)

    def _recovery(self, label: str, size: int) -> None:
        """Measure the recovery of a segment of one idempotent producer, as after a broker's crash."""
        log, payload = self._fresh_log(TopicConfig()), os.urandom(size - HEADER_SIZE)
        for sequence in range(self._size // size):
            header = BatchHeader(0, size - LOG_OVERHEAD, -1, 2, 0, 0, 0, 1000, 1000, 7, 0, sequence, 1)
            log.append_as_leader(HEADER.pack(*with_crc(header, payload)) + payload, leader_epoch=0, now_ms=0)
        log.close()
        files = [segment.path for segment in log.segments]

        def recover() -> int:
            Log.open(log.directory, TopicConfig(), clean=False).abandon()
            return log.size

        name = f"recovery, batches of {label}"
        self._measure({name: recover, f"{name}, read alone": partial(_read_and_check, files)}, files)
        shutil.rmtree(log.directory)

    def _cleaning(self, record_bytes: int, per_batch: int) -> None:
        """Measure the CPU of cleaning one sealed segment, whose records have few keys at random."""
        log, rng = self._fresh_log(TopicConfig(cleanup_policy="compact")), random.Random(1)
        keys = [rng.randbytes(KEY_BYTES) for _ in range(self._size // record_bytes // PER_KEY)]
        while log.size < self._size:
            builder = BatchBuilder(1 << 30)
            for _ in range(per_batch):
                builder.append(NOW_MS, rng.choice(keys), rng.randbytes(record_bytes - KEY_BYTES), ())
            log.append_as_leader(b"".join(builder.build()), leader_epoch=0, now_ms=NOW_MS)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        map_bytes = BrokerConfig.model_fields["log_cleaner_dedupe_buffer_size"].default
        task = CleanTask.of(log, find_cleanable(log, None, NOW_MS), NOW_MS, map_bytes)
        files = [source.path for source in task.sources]

        def clean() -> int:
            """Discard the result, so that the next cleaning does the same."""
            cleaning = Cleaning(task)
            cleaning.map_keys()
            for group in task.groups(cleaning.end_offset):
                swap = cleaning.rewrite(group)
                assert swap is not None, "nothing was cleaned"
                swap.cancel()
            return _size_of(files)

        name = f"clean records of {record_bytes} B, {per_batch} a batch, CPU"
        works: Works = {name: clean, f"{name}, read alone": partial(_read_and_check, files)}
        self._measure(works, files, time.process_time)
        log.abandon()
        shutil.rmtree(log.directory)

    def audit(self) -> None:
        whole, small = (replicas(self._directory / name, size) for name, size in (("all", self._size), ("small", MIB)))
        files = [path for directory in whole.values() for path in sorted(directory.glob("*/*.*"))]
        spark = spark_session("benchmark", f"local[{CORES}]")

        def audited(level: str, directories: dict[int, Path] = whole) -> int:
            result = audit(spark, directories, (), level)
            assert result.verdict == CONSISTENT, (result.verdict, result.findings)
            return sum(result.bytes_read.values())

        for level in LEVELS:
            audited(level, small)
        works: Works = {level: partial(audited, level) for level in LEVELS}
        works |= {
            name: partial(_hashed, command, files) for name, command in HASHES.items() if shutil.which(command[0])
        }
        self._measure(works, files)
        spark.stop()


def replicas(root: Path, size: int) -> dict[int, Path]:
    """Make three equal replicas of `size` bytes, synced, each high watermark at the end; return their directories."""
    directories = {replica: root / str(replica) for replica in REPLICAS}
    first, *others = (directory / PARTITION.directory_name for directory in directories.values())
    first.mkdir(parents=True)
    log, rng, now_ms = Log.open(first, TopicConfig(), clean=True), random.Random(1), NOW_MS
    values = rng.randbytes(8 * MIB)
    while log.size < size:
        now_ms += 1
        builder = BatchBuilder(AUDITED_BATCH)
        while builder.append(now_ms, None, values[(at := rng.randrange(7 * MIB)) : at + AUDITED_RECORD], ()):
            pass
        log.append_as_leader(b"".join(builder.build()), leader_epoch=0, now_ms=now_ms)
    log.close()
    for other in others:
        shutil.copytree(first, other)
    for directory in directories.values():
        OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).write({PARTITION: log.log_end_offset})
        OffsetCheckpoint(directory / LOG_START_CHECKPOINT).write({})
    os.sync()
    return directories


def _place(files: Iterable[Path], *, cold: bool) -> None:
    """Read files, so that they are in memory; or drop them, so that they are only on disk."""
    if not cold:
        _read_and_check(files)
    for path in files if cold else ():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_and_check(files: Iterable[Path]) -> int:
    for path in files:
        crc = 0
        with path.open("rb", buffering=0) as file:
            while window := file.read(MIB):
                crc = crc32c(window, crc)
    return _size_of(files)


def _hashed(command: list[str], files: list[Path]) -> int:
    """Hash each file, one a core at once."""
    one_by_one = ["xargs", "-0", "-n", "1", "-P", str(CORES), *command]
    subprocess.run(one_by_one, input="\0".join(map(str, files)).encode(), stdout=subprocess.DEVNULL, check=True)
    return _size_of(files)


def _size_of(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("what", choices=("storage", "audit"))
    parser.add_argument("--mib", type=int, default=128, help="of a log")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="read everything from disk")
    parser.add_argument("--directory", type=Path, help="for the logs; the system's temporary one if left out")
    options, note = parsed(parser)
    with homes(options.directory) as directory:
        bench = Bench(directory, options.mib * MIB, options.rounds, note, cold=options.cold)
        getattr(bench, options.what)()
    rows = [
        [name, f"{its['seconds']:,.3f}", f"{its['bytes_read'] / 1e6 / its['seconds']:,.0f}", f"{its['bytes_read']:,}"]
        for name, its in bench.figures.items()
    ]
    where = f"{options.mib:,} MiB a log, {'only on disk' if options.cold else 'in memory'}, {CORES} cores"
    publish("logs", table([where, "seconds", "MB/s", "bytes read"], rows), bench.figures, options)


if __name__ == "__main__":
    main()
