"""Measures the storage engine, and the plain system calls that do the same, in one run.

Only what the log has to sync is synced. The two sides take turns, and each figure is the median of all rounds, since
the speed of a machine varies. Run it with `make bench-storage`.
"""

import bisect
import os
import random
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crc32c import crc32c
from rich.console import Console

from benchmarks.report import benchmark_parser, publish, table
from replog.client.records import BatchBuilder
from replog.config.processes import BrokerConfig
from replog.config.topic import TopicConfig
from replog.log.compaction.cleanable import find_cleanable
from replog.log.compaction.cleaning import Cleaning, CleanTask
from replog.log.formats.batch import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, BatchHeader, parse_header
from replog.log.indexes.offset_index import OffsetIndex
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.rpc.allocator import tune_allocator

KIB, MIB = 1 << 10, 1 << 20
BATCH_SIZES = (16 * KIB, MIB)
FETCH_BYTES = MIB
INDEX_BYTES = 10 * MIB  # the default of segment.index.bytes
LOOK_UPS = 20_000
CLEANED = ((KIB, 16), (100, 150))  # bytes of a record, records of a batch
PER_KEY = 4  # records of a key on average, of which a cleaning removes three
KEY_BYTES = 16
NOW_MS = 1_700_000_000_000
CLEANED_MB = 25.0  # MB a second of CPU, five times the rate of the first cleaner
COLD_READS = 200
MIN_MEBIBYTES = 8  # enough batches to read at the tail and elsewhere

Seconds = float
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table, with medians over the rounds; `ratio` is plain time / our time of each round."""

    name: str
    unit: str
    plain: float
    ours: float
    ratio: float
    target: str
    met: bool | None  # None: there is no target


def batches(size: int, total: int) -> list[bytes]:
    """Return client batches of `size` bytes of one idempotent producer, `total` bytes in all."""
    payload = os.urandom(size - HEADER_SIZE)
    made = []
    for sequence in range(total // size):
        header = BatchHeader(0, size - LOG_OVERHEAD, -1, 2, 0, 0, 0, 1000, 1000, 7, 0, sequence, 1)
        crc = crc32c(payload, crc32c(HEADER.pack(*header)[CRC_START:]))
        made.append(HEADER.pack(*header._replace(crc=crc)) + payload)
    return made


def leader_bytes(log: Log, total: int) -> list[bytes]:
    """Return the bytes of a log as followers fetch them."""
    fetches = []
    offset = log.log_start_offset
    while offset < log.log_end_offset and total > 0:
        records = log.read(offset, FETCH_BYTES, Isolation.LOG_END, min_one_message=True).records
        whole = bytes(records)
        position = 0
        while position + HEADER_SIZE <= len(whole):
            header = parse_header(whole, position)
            if position + header.size > len(whole):
                break
            position, offset = position + header.size, header.next_offset
        fetches.append(whole[:position])
        total -= position
    return fetches


def _label(size: int) -> str:
    return f"{size // KIB} KiB" if size < MIB else f"{size // MIB} MiB"


def timed(call: Callable[[Any], object], items: Iterable[Any]) -> Seconds:
    """Return the time of all these calls together."""
    started = time.perf_counter()
    for item in items:
        call(item)
    return time.perf_counter() - started


def read_and_check(path: Path) -> None:
    crc = 0
    with path.open("rb", buffering=0) as file:
        while window := file.read(MIB):
            crc = crc32c(window, crc)


def compacted(directory: Path, total: int, record_bytes: int, per_batch: int) -> Log:
    """Return a log with one sealed segment of at least `total` bytes, whose records have few keys at random."""
    log = Log.open(directory, TopicConfig(cleanup_policy="compact"), clean=True)
    rng = random.Random(1)
    keys = [rng.randbytes(KEY_BYTES) for _ in range(total // record_bytes // PER_KEY)]
    while log.size < total:
        builder = BatchBuilder(1 << 30)
        for _ in range(per_batch):
            builder.append(NOW_MS, rng.choice(keys), rng.randbytes(record_bytes - KEY_BYTES), ())
        log.append_as_leader(b"".join(builder.build()), leader_epoch=0, now_ms=NOW_MS)
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    return log


def clean(task: CleanTask) -> Seconds:
    """Return the CPU time of a cleaning, whose result is discarded, so that the next one does the same."""
    begun = time.process_time()
    cleaning = Cleaning(task)
    cleaning.map_keys()
    swaps = [cleaning.rewrite(group) for group in task.groups(cleaning.end_offset)]
    seconds = time.process_time() - begun
    for swap in swaps:
        assert swap is not None, "nothing was cleaned"
        swap.cancel()
    return seconds


class Bench:
    """Measures with logs in `directory`, which decides the file system."""

    def __init__(self, directory: Path, rounds: int, mebibytes: int, note: Note) -> None:
        self._directory = directory
        self._rounds = rounds
        self._bytes = mebibytes * MIB
        self._note = note

    def run(self) -> Iterator[Figure]:
        for size in BATCH_SIZES:
            yield from self.append(size)
        yield from self.read()
        yield from self.look_up()
        for size in BATCH_SIZES:
            yield from self.recovery(size)
        for record, per_batch in CLEANED:
            yield self.cleaning(record, per_batch)

    def append(self, size: int) -> Iterator[Figure]:
        """Measure appends as leader and as follower, to new files."""
        label = _label(size)
        target = 0.6 if size >= MIB else 0.25
        sent = batches(size, self._bytes)
        log = self._appended_as_leader(sent)[1]
        fetches = leader_bytes(log, self._bytes)
        self._drop(log)

        def leader() -> Seconds:
            seconds, log = self._appended_as_leader(sent)
            self._drop(log)
            return seconds

        yield self._rate(f"append {label} as leader", lambda: self._written(sent), leader, target)
        yield self._rate(
            f"append {label} as follower",
            lambda: self._written(fetches),
            lambda: self._appended_as_follower(fetches),
            target,
        )

    def read(self) -> Iterator[Figure]:
        """Measure reads of 16 KiB, at the tail and after everything was dropped from the page cache."""
        size = BATCH_SIZES[0]
        log = self._appended_as_leader(batches(size, self._bytes))[1]
        log.flush()
        path, count = log.segments[-1].path, log.log_end_offset
        fd = os.open(path, os.O_RDONLY)
        tail = [count - 1 - number % 200 for number in range(LOOK_UPS)]

        def ours(offset: int) -> None:
            log.read(offset, size, Isolation.LOG_END, min_one_message=True)

        def plain(offset: int) -> None:
            os.pread(fd, size, offset * size)

        yield self._each("read 16 KiB at the tail", len(tail), lambda: timed(plain, tail), lambda: timed(ours, tail))

        def cold(read: Callable[[int], None]) -> Seconds:
            self._forget(log.directory)
            return timed(read, random.sample(range(count // 2), COLD_READS))

        log.close()
        log = Log.open(log.directory, TopicConfig(), clean=True)
        yield self._each("read 16 KiB, cold", COLD_READS, lambda: cold(plain), lambda: cold(ours))
        os.close(fd)
        self._drop(log)

    def look_up(self) -> Iterator[Figure]:
        """Measure look-ups in a full index that was opened again: among the last 1,000 entries, and anywhere."""
        path = self._directory / "full.index"
        count = INDEX_BYTES // 8
        path.write_bytes(b"".join(struct.pack(">ii", slot * 40 + 39, slot * 1600) for slot in range(count)))
        index = OffsetIndex(path, 10**12)
        known = [10**12 + slot * 40 + 39 for slot in range(count)]
        for name, lowest in (("at the tail", known[-1000]), ("anywhere", known[0])):
            targets = [random.randrange(lowest, known[-1]) for _ in range(LOOK_UPS)]
            ours = partial(timed, index.lookup, targets)
            plain = partial(timed, partial(bisect.bisect_right, known), targets)
            yield self._each(f"look up an offset {name}", LOOK_UPS, plain, ours, at_most=5.0)
        index.close()
        path.unlink()

    def recovery(self, size: int) -> Iterator[Figure]:
        """Measure the recovery of a segment in memory, as after a broker's crash, and on disk, as after a machine's."""
        log = self._appended_as_leader(batches(size, self._bytes))[1]
        log.close()
        path = log.segments[-1].path

        def plain() -> Seconds:
            return timed(read_and_check, [path])

        def ours() -> Seconds:
            started = time.perf_counter()
            log = Log.open(path.parent, TopicConfig(), clean=False)
            seconds = time.perf_counter() - started
            log.abandon()
            return seconds

        def cold(side: Callable[[], Seconds]) -> Seconds:
            self._forget(path.parent)
            return side()

        label = f"recovery, batches of {_label(size)}"
        yield self._rate(label, plain, ours, 0.5)
        yield self._rate(f"{label}, cold", lambda: cold(plain), lambda: cold(ours), 0.5)
        self._drop(log)

    def cleaning(self, record: int, per_batch: int) -> Figure:
        log = compacted(Path(tempfile.mkdtemp(dir=self._directory)), self._bytes, record, per_batch)
        map_bytes = BrokerConfig.model_fields["log_cleaner_dedupe_buffer_size"].default
        task = CleanTask.of(log, find_cleanable(log, None, NOW_MS), NOW_MS, map_bytes)

        def plain() -> Seconds:
            begun = time.process_time()
            for source in task.sources:
                read_and_check(source.path)
            return time.process_time() - begun

        name = f"clean records of {record} B, {per_batch} a batch, CPU"
        figure = self._rate(name, plain, lambda: clean(task), at_least=CLEANED_MB)
        self._drop(log)
        return figure

    # -- one round each

    def _fresh_log(self) -> Log:
        return Log.open(Path(tempfile.mkdtemp(dir=self._directory)), TopicConfig(), clean=True)

    def _appended_as_leader(self, sent: list[bytes]) -> tuple[Seconds, Log]:
        log = self._fresh_log()
        return timed(partial(log.append_as_leader, leader_epoch=0, now_ms=0), sent), log

    def _appended_as_follower(self, fetches: list[bytes]) -> Seconds:
        log = self._fresh_log()
        seconds = timed(log.append_as_follower, fetches)
        self._drop(log)
        return seconds

    def _written(self, pieces: list[bytes]) -> Seconds:
        path = self._directory / "plain"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        seconds = timed(lambda piece: os.writev(fd, [piece]), pieces)
        os.close(fd)
        path.unlink()
        return seconds

    def _forget(self, directory: Path) -> None:
        for path in directory.iterdir():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)

    def _drop(self, log: Log) -> None:
        log.abandon()
        shutil.rmtree(log.directory)

    # -- both sides in turn

    def _rate(
        self,
        name: str,
        plain: Callable[[], Seconds],
        ours: Callable[[], Seconds],
        target: float | None = None,
        at_least: float = 0.0,
    ) -> Figure:
        """Measure MB/s. The target is the ratio `target` or, without one, our rate `at_least`."""
        pairs = self._rounds_of(name, plain, ours)
        ratio = statistics.median(p / o for p, o in pairs)
        rates = [self._bytes / 1e6 / statistics.median(side) for side in zip(*pairs, strict=True)]
        wanted, met = (
            (f"{at_least:g} MB/s", rates[1] >= at_least) if target is None else (f"{target:.2f}", ratio >= target)
        )
        return Figure(name, "MB/s", rates[0], rates[1], ratio, f"at least {wanted}", met)

    def _each(
        self,
        name: str,
        count: int,
        plain: Callable[[], Seconds],
        ours: Callable[[], Seconds],
        at_most: float | None = None,
    ) -> Figure:
        """Measure the microseconds of each of `count` operations."""
        pairs = self._rounds_of(name, plain, ours)
        ratio = statistics.median(p / o for p, o in pairs)
        micros = [statistics.median(side) / count * 1e6 for side in zip(*pairs, strict=True)]
        target, met = ("", None) if at_most is None else (f"at most {at_most:g} µs", micros[1] <= at_most)
        return Figure(name, "µs", micros[0], micros[1], ratio, target, met)

    def _rounds_of(
        self, name: str, plain: Callable[[], Seconds], ours: Callable[[], Seconds]
    ) -> list[tuple[Seconds, Seconds]]:
        pairs = []
        for number in range(self._rounds):
            self._note(f"{name}, round {number + 1} of {self._rounds}")
            if number % 2:
                later = ours()
                pairs.append((plain(), later))
            else:
                pairs.append((plain(), ours()))
        return pairs


def shown(figures: Iterable[Figure]) -> str:
    mark = {None: "", True: " ✓", False: " ✗"}
    rows = [
        [f.name, f.unit, f"{f.plain:,.4g}", f"{f.ours:,.4g}", f"{f.ratio:.2f}", f.target + mark[f.met]] for f in figures
    ]
    return table(["", "unit", "plain", "replog", "plain / replog time", "wanted"], rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="of every figure, each of both sides")
    parser.add_argument("--mebibytes", type=int, default=128, help="in a log that is appended to, read or recovered")
    parser.add_argument("--directory", type=Path, help="on the disk to measure; the system's temporary one if left out")
    options = parser.parse_args()
    if options.mebibytes < MIN_MEBIBYTES or options.rounds < 1:
        parser.error(f"needs --mebibytes {MIN_MEBIBYTES} and --rounds 1 at least")
    tune_allocator()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="replog-bench-", dir=options.directory, ignore_cleanup_errors=True) as made:
        directory = Path(made)
        with console.status("") as status:
            figures = list(Bench(directory, options.rounds, options.mebibytes, status.update).run())
    publish("storage", shown(figures), {"figures": list(map(asdict, figures))}, options)


if __name__ == "__main__":
    main()
