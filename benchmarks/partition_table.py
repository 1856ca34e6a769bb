"""Shows the figures of `benchmarks.partitions` as a Markdown table."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.report import table

Phases = Mapping[str, Mapping[str, Any]]
Rounds = Sequence[Phases]  # one system with one number of partitions
Report = Mapping[str, Mapping[str, Rounds]]  # keys: system, number of partitions


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _fine(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


ROWS: Sequence[tuple[str, str, str, Callable[[float], str]]] = (
    ("created on every disk, s", "create", "seconds", _seconds),
    ("a steady producer's p99 before, ms", "quiet", "steady_p99_ms", _fine),
    ("… meanwhile, ms", "create", "steady_p99_ms", _fine),
    ("a record acknowledged on every partition, s", "first", "seconds", _seconds),
    ("p50 at 1,000 records/s over all, ms", "load", "p50_ms", _fine),
    ("p99, ms", "load", "p99_ms", _fine),
    ("CPU of a broker then, % of a core", "load", "broker_percent", _fine),
    ("CPU of the client then, % of a core", "load", "client_percent", _fine),
    ("leaderships lost by then without a reason", "load", "moved", _whole),
    ("memory of a broker, MiB", "load", "broker_mib", _whole),
    ("memory of the controller, MiB", "load", "controller_mib", _whole),
    ("idle CPU of a broker, % of a core", "idle", "broker_percent", _fine),
    ("idle CPU of the controller, % of a core", "idle", "controller_percent", _fine),
    ("leaderships off a killed broker, s", "fail_over", "seconds", _seconds),
    ("longest wait for an acknowledgement then, it led, s", "fail_over", "led_wait_s", _seconds),
    ("… it did not lead, s", "fail_over", "others_wait_s", _seconds),
    ("killed broker restarted, all in sync, s", "restart", "seconds", _seconds),
    ("another stopped in order and restarted, all in sync, s", "orderly", "seconds", _seconds),
    ("deleted on every disk, s", "delete", "seconds", _seconds),
    ("the steady producer's p99 meanwhile, ms", "delete", "steady_p99_ms", _fine),
    ("… while its files are removed, ms", "removed", "steady_p99_ms", _fine),
)


def cell(rounds: Rounds, phase: str, figure: str, form: Callable[[float], str]) -> str:
    """Show the median of the rounds, or that one of them did not finish."""
    of_rounds = [phases.get(phase, {"not_begun": True}) for phases in rounds]
    for figures in of_rounds:
        if "not_within_s" in figures:
            return f"not within {figures['not_within_s']} s"
    if any("failed" in figures for figures in of_rounds):
        return "failed"
    values = [figures[figure] for figures in of_rounds if figure in figures]
    return form(statistics.median(values)) if values else "–"


def shown(report: Report) -> str:
    columns = [(name, int(count), rounds) for name, counts in report.items() for count, rounds in counts.items()]
    head = ["", *(f"{name}, {count:,}" for name, count, _ in columns)]
    rows = [
        [label, *(cell(rounds, phase, figure, form) for _, _, rounds in columns)] for label, phase, figure, form in ROWS
    ]
    return table(head, rows)
