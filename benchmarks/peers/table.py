"""Shows the medians of the rounds in Markdown, with the lowest and the highest; each line is a figure of a row."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.beside import Figures
from benchmarks.peers.peer import CLIENT
from benchmarks.peers.rows import (
    BULK,
    CONSUMED,
    DEFAULTS,
    KIB,
    LARGE,
    PROMPT,
    RATES,
    RECORD_BYTES,
    SMALL,
    Pace,
    Produce,
    Row,
)
from benchmarks.report import table

Rounds = dict[str, list[dict[str, Figures]]]
"""Each system's rounds, which have the figures of each row under the row's key."""

Pick = Callable[[Figures], float]


class Line(NamedTuple):
    label: str
    row: Row
    pick: Pick


def rate(figures: Figures) -> float:
    return float(figures["mb_per_second"])


def p50(figures: Figures) -> float:
    return float(figures["p50_ms"])


def p99(figures: Figures) -> float:
    return float(figures["p99_ms"])


def cpu_per_record(figures: Figures) -> float:
    """Return the milliseconds of all processes."""
    return float(sum(figures["cpu_ms_per_record"].values()))


def cpu_per_gb(figures: Figures) -> float:
    """Return the seconds of all processes."""
    return float(sum(figures["cpu_s_per_gb"].values()))


def _brokers_per_gb(figures: Figures) -> float:
    return cpu_per_gb(figures) - _client_per_gb(figures)


def _client_per_gb(figures: Figures) -> float:
    return float(figures["cpu_s_per_gb"][CLIENT])


_SIZES = {100: "100 B", KIB: "1 KiB", 10 * KIB: "10 KiB"}
_BATCHES = {LARGE: "256 KiB batches", SMALL: "16 KiB batches"}  # replog's default and Kafka's
_LINGERS = {DEFAULTS: "defaults", PROMPT: "linger 0"}
LINES = [
    *(
        Line(f"{_SIZES[size]}, {told}, MB/s", Produce(size, settings), rate)
        for size in RECORD_BYTES
        for settings, told in _BATCHES.items()
    ),
    Line("CPU of brokers at 1 KiB, 256 KiB batches, s/GB", Produce(KIB, LARGE), _brokers_per_gb),
    Line("… of the client, s/GB", Produce(KIB, LARGE), _client_per_gb),
    *(
        Line(f"{name} at {per_second:,} records/s, {told}, ms", Pace(per_second, settings), pick)
        for per_second in RATES
        for settings, told in _LINGERS.items()
        for name, pick in (("p50", p50), ("p99", p99))
    ),
    Line("CPU of all at 1,000 records/s, defaults, ms/record", Pace(RATES[0], DEFAULTS), cpu_per_record),
    Line("consume, MB/s", CONSUMED, rate),
    Line("requests of 1 MiB, MB/s", BULK, rate),
    Line("CPU of all then, s/GB", BULK, cpu_per_gb),
]


def values(rounds: Sequence[Mapping[str, Figures]], row: Row, pick: Pick) -> list[float]:
    """Return a figure of each round that has the row."""
    return [pick(figures[row.key]) for figures in rounds if row.key in figures]


def form(value: float) -> str:
    """Show a value with two or three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(of_rounds: Sequence[float]) -> str:
    if not of_rounds:
        return "–"
    lowest, median, highest = map(form, (min(of_rounds), statistics.median(of_rounds), max(of_rounds)))
    return median if lowest == highest else f"{median} ({lowest}–{highest})"


def shown(report: Rounds) -> str:
    rows = [[label, *(cell(values(rounds, row, pick)) for rounds in report.values())] for label, row, pick in LINES]
    return table(["", *report], rows)
