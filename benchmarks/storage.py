"""Measures recovery and cleaning beside reads and CRCs of the same bytes, in one run.

The two sides take turns, and each figure is the median of all rounds, since the speed of a machine varies. Run it with
`make bench-storage`.
"""

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from crc32c import crc32c

from benchmarks.harness import Note, benchmark_parser, homes, parsed, publish, table
from replog.client.records import BatchBuilder
from replog.config.processes import BrokerConfig
from replog.config.topic import TopicConfig
from replog.log.compaction.cleaning import Cleaning, CleanTask, find_cleanable
from replog.log.formats.batch import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from replog.log.log import Log

KIB, MIB = 1 << 10, 1 << 20
BATCH_SIZES = {"16 KiB": 16 * KIB, "1 MiB": MIB}
CLEANED = ((KIB, 16), (100, 150))  # bytes of a record, records of a batch
PER_KEY, KEY_BYTES = 4, 16  # records of a key on average, of which a cleaning removes three
NOW_MS = 1_700_000_000_000
MIN_MEBIBYTES = 8

Side = Callable[[], float]
"""Does the work once, and returns its seconds."""


class Figure(NamedTuple):
    """One line of the table, in MB/s, with medians over the rounds; `ratio` is plain time / our time of each round."""

    name: str
    plain: float
    ours: float
    ratio: float


def batches(size: int, total: int) -> list[bytes]:
    """Return client batches of `size` bytes of one idempotent producer, `total` bytes in all."""
    payload = os.urandom(size - HEADER_SIZE)
    made = []
    for sequence in range(total // size):
        header = BatchHeader(0, size - LOG_OVERHEAD, -1, 2, 0, 0, 0, 1000, 1000, 7, 0, sequence, 1)
        crc = crc32c(payload, crc32c(HEADER.pack(*header)[CRC_START:]))
        made.append(HEADER.pack(*header._replace(crc=crc)) + payload)
    return made


def read_and_check(path: Path) -> None:
    crc = 0
    with path.open("rb", buffering=0) as file:
        while window := file.read(MIB):
            crc = crc32c(window, crc)


def cleaned(task: CleanTask) -> float:
    """Return the CPU seconds of a cleaning, whose result is discarded, so that the next one does the same."""
    begun = time.process_time()
    cleaning = Cleaning(task)
    cleaning.map_keys()
    swaps = [cleaning.rewrite(group) for group in task.groups(cleaning.end_offset)]
    seconds = time.process_time() - begun
    for swap in swaps:
        assert swap is not None, "nothing was cleaned"
        swap.cancel()
    return seconds


@dataclass
class Bench:
    """Measures with logs in `directory`, which decides the file system."""

    directory: Path
    rounds: int
    bytes: int  # each log has so many
    note: Note

    def run(self) -> Iterator[Figure]:
        for label, size in BATCH_SIZES.items():
            yield self.recovery(label, size)
        for record_bytes, per_batch in CLEANED:
            yield self.cleaning(record_bytes, per_batch)

    def recovery(self, label: str, size: int) -> Figure:
        """Measure the recovery of a segment that is in memory, as after a broker's crash."""
        log = self._fresh_log(TopicConfig())
        for batch in batches(size, self.bytes):
            log.append_as_leader(batch, leader_epoch=0, now_ms=0)
        log.close()

        def ours() -> float:
            started = time.perf_counter()
            recovered = Log.open(log.directory, TopicConfig(), clean=False)
            seconds = time.perf_counter() - started
            recovered.abandon()
            return seconds

        def plain() -> float:
            started = time.perf_counter()
            for segment in log.segments:
                read_and_check(segment.path)
            return time.perf_counter() - started

        figure = self._figure(f"recovery, batches of {label}", plain, ours)
        shutil.rmtree(log.directory)
        return figure

    def cleaning(self, record_bytes: int, per_batch: int) -> Figure:
        """Measure the CPU of cleaning one sealed segment, whose records have few keys at random."""
        log = self._fresh_log(TopicConfig(cleanup_policy="compact"))
        rng = random.Random(1)
        keys = [rng.randbytes(KEY_BYTES) for _ in range(self.bytes // record_bytes // PER_KEY)]
        while log.size < self.bytes:
            builder = BatchBuilder(1 << 30)
            for _ in range(per_batch):
                builder.append(NOW_MS, rng.choice(keys), rng.randbytes(record_bytes - KEY_BYTES), ())
            log.append_as_leader(b"".join(builder.build()), leader_epoch=0, now_ms=NOW_MS)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        map_bytes = BrokerConfig.model_fields["log_cleaner_dedupe_buffer_size"].default
        task = CleanTask.of(log, find_cleanable(log, None, NOW_MS), NOW_MS, map_bytes)

        def plain() -> float:
            begun = time.process_time()
            for source in task.sources:
                read_and_check(source.path)
            return time.process_time() - begun

        name = f"clean records of {record_bytes} B, {per_batch} a batch, CPU"
        figure = self._figure(name, plain, partial(cleaned, task))
        log.abandon()
        shutil.rmtree(log.directory)
        return figure

    def _fresh_log(self, config: TopicConfig) -> Log:
        return Log.open(Path(tempfile.mkdtemp(dir=self.directory)), config, clean=True)

    def _figure(self, name: str, plain: Side, ours: Side) -> Figure:
        """Measure both sides in turns."""
        pairs = []
        for number in range(self.rounds):
            self.note(f"{name}, round {number + 1} of {self.rounds}")
            taken = {side: side() for side in ((plain, ours), (ours, plain))[number % 2]}
            pairs.append((taken[plain], taken[ours]))
        ratio = median(one / other for one, other in pairs)
        plain_s, ours_s = (median(side) for side in zip(*pairs, strict=True))
        return Figure(name, self.bytes / 1e6 / plain_s, self.bytes / 1e6 / ours_s, ratio)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="of every figure, each of both sides")
    parser.add_argument("--mebibytes", type=int, default=128, help="in a log")
    parser.add_argument("--directory", type=Path, help="for the logs; the system's temporary one if left out")
    options, note = parsed(parser)
    if options.mebibytes < MIN_MEBIBYTES or options.rounds < 1:
        parser.error(f"needs --mebibytes {MIN_MEBIBYTES} and --rounds 1 at least")
    with homes(options.directory) as directory:
        figures = list(Bench(directory, options.rounds, options.mebibytes * MIB, note).run())
    rows = [[f.name, f"{f.plain:,.4g}", f"{f.ours:,.4g}", f"{f.ratio:.2f}"] for f in figures]
    shown = table(["MB/s", "plain", "replog", "plain / replog time"], rows)
    publish("storage", shown, {"figures": [figure._asdict() for figure in figures]}, options)


if __name__ == "__main__":
    main()
