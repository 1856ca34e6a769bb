"""Ratios of replog and other systems in one run: targets, and ratios that must not drop."""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.peers.rows import BULK, DEFAULTS, KIB, LARGE, PROMPT, RATES, RECORD_BYTES, SMALL, Pace, Produce, Row
from benchmarks.peers.table import Pick, Rounds, cpu_per_gb, cpu_per_record, form, p50, p99, rate, values
from benchmarks.report import table

OURS, KAFKA, RAW = "replog", "Kafka", "raw sockets"
SLOW, FAST = RATES
MAX_DROP = 0.2
_BATCHES = (DEFAULTS, LARGE, SMALL)


class NotMeasured(Exception):
    """A system or a row is missing in the report."""


def _of_rounds(report: Rounds, system: str, row: Row, pick: Pick) -> list[float]:
    """Return a figure of each round, at least one. Raises NotMeasured."""
    of_rounds = values(report.get(system, []), row, pick)
    if not of_rounds:
        raise NotMeasured(f"{system}, {row.key}")
    return of_rounds


def median(report: Rounds, system: str, row: Row, pick: Pick) -> float:
    """Return the median of a figure. Raises NotMeasured."""
    return statistics.median(_of_rounds(report, system, row, pick))


def best_rate(report: Rounds, system: str, record_bytes: int) -> float:
    """Return a system's rate with the settings that suit it best. Raises NotMeasured."""
    return max(median(report, system, Produce(record_bytes, settings), rate) for settings in _BATCHES)


class Wanted(NamedTuple):
    what: str
    find: Callable[[Rounds], float]
    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


def _ours(per_second: int, pick: Pick) -> Callable[[Rounds], float]:
    return lambda report: median(report, OURS, Pace(per_second, DEFAULTS), pick)


def _beside_kafka(per_second: int, pick: Pick) -> Callable[[Rounds], float]:
    return lambda report: _ours(per_second, pick)(report) / median(report, KAFKA, Pace(per_second, PROMPT), pick)


def _faster(other: str, row: Row) -> Callable[[Rounds], float]:
    return lambda report: median(report, OURS, row, rate) / median(report, other, row, rate)


def _faster_at_best(record_bytes: int) -> Callable[[Rounds], float]:
    return lambda report: best_rate(report, OURS, record_bytes) / best_rate(report, KAFKA, record_bytes)


WANTED = [
    Wanted("p50 at 1,000 records/s, ms", _ours(SLOW, p50), 1.0),
    Wanted("p99, ms", _ours(SLOW, p99), 4.0),
    Wanted("p50 / Kafka's with linger 0", _beside_kafka(SLOW, p50), 1.2),
    Wanted("p99 / Kafka's with linger 0", _beside_kafka(SLOW, p99), 1.0),
    Wanted("p50 at 10,000 records/s, ms", _ours(FAST, p50), 2.0),
    Wanted("p99 / Kafka's with linger 0", _beside_kafka(FAST, p99), 1.0),
    Wanted("1 KiB, 16 KiB batches / Kafka", _faster(KAFKA, Produce(KIB, SMALL)), 2.0, at_least=True),
    Wanted("10 KiB, 16 KiB batches / Kafka", _faster(KAFKA, Produce(10 * KIB, SMALL)), 2.0, at_least=True),
    *(
        Wanted(f"{size} B, best settings of each / Kafka", _faster_at_best(size), 2.0, at_least=True)
        for size in RECORD_BYTES
    ),
    Wanted("requests of 1 MiB / raw sockets", _faster(RAW, BULK), 0.45, at_least=True),
    Wanted("CPU of all at 1,000 records/s, ms/record", _ours(SLOW, cpu_per_record), 0.35),
]


def judged(report: Rounds) -> str:
    """Return a table of the targets that were measured."""
    rows = []
    for wanted in WANTED:
        try:
            value = wanted.find(report)
        except NotMeasured:
            continue
        bound = f"{'at least' if wanted.at_least else 'at most'} {form(wanted.bound)}"
        rows.append([wanted.what, form(value), bound, "yes" if wanted.met(value) else "no"])
    return table(["wanted of replog", "measured", "wanted", "met"], rows)


GUARDED_ROWS: Sequence[Row] = (BULK, Pace(SLOW, DEFAULTS))


def guarded(report: Rounds) -> dict[str, float]:
    """Return the ratios of replog and raw sockets for `make bench-quick`; larger is better. Raises NotMeasured.

    They are those of the best rounds: other work on a machine makes some rounds worse, slower code makes all worse.
    """
    paced = Pace(SLOW, DEFAULTS)

    def fastest(system: str) -> float:
        return max(_of_rounds(report, system, BULK, rate))

    def cheaper(row: Row, pick: Pick) -> float:
        return min(_of_rounds(report, RAW, row, pick)) / min(_of_rounds(report, OURS, row, pick))

    return {
        "requests of 1 MiB, MB/s: replog / raw sockets": fastest(OURS) / fastest(RAW),
        "CPU of a GB in them: raw sockets / replog": cheaper(BULK, cpu_per_gb),
        "p50 at 1,000 records/s: raw sockets / replog": cheaper(paced, p50),
        "CPU of a record then: raw sockets / replog": cheaper(paced, cpu_per_record),
    }


def dropped(now: dict[str, float], stored: dict[str, float]) -> list[str]:
    """Return the ratios that are more than `MAX_DROP` below the stored ones."""
    return [name for name, ratio in now.items() if ratio < stored[name] * (1 - MAX_DROP)]
