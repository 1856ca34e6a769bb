"""The work of `replog sim`: seeds with a progress bar, and totals; one seed with its trace."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.cli.options import Format
from cluster.cli.output import note, print_rows
from cluster.simulation.profiles import profile_named
from cluster.simulation.report import Totals, check_report, write_report
from cluster.simulation.runner import run_seeds, work_directory
from cluster.simulation.simulation import Outcome, simulate

SHOWN_FAILURES = 5
LINE_EVERY_S = 30.0


def run_many(
    seeds: int, first_seed: int, profile: str, jobs: int, keep: Path | None, report: Path | None, as_json: bool
) -> bool:
    """Whether any seed failed. An interrupt ends the run after what the seeds so far have come to was told."""
    if report is not None:
        check_report(report)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    totals = Totals(profile, first_seed)
    failures: list[Outcome] = []
    started = time.monotonic()
    try:
        with _progress(seeds) as advance:
            wanted = range(first_seed, first_seed + seeds)
            for outcome in run_seeds(wanted, profile_named(profile), jobs=jobs, keep=keep):
                totals.add(outcome)
                advance(len(totals.failed))
                if outcome.failed:
                    failures.append(outcome)
    finally:
        totals.wall_s = time.monotonic() - started
        if report is not None and totals.seeds == seeds:  # first, for whoever reads what is told may have gone
            write_report(report, totals, time.strftime("%Y-%m-%d"))
        _tell(totals, failures, as_json)
    return bool(failures)


def _tell(totals: Totals, failures: list[Outcome], as_json: bool) -> None:
    if as_json:
        print(json.dumps({**totals.plain(), "failures": [failure.plain() for failure in failures]}, indent=2))
    else:
        _print(totals, failures)


def _print(totals: Totals, failures: list[Outcome]) -> None:
    rows = [{"what": name, "value": value} for name, value in totals.figures().items()]
    print_rows(rows, {"what": f"PROFILE {totals.profile}", "value": ""}, Format.TABLE)
    faults = [{"kind": kind, "times": count} for kind, count in sorted(totals.faults.items())]
    if faults:
        print()
        print_rows(faults, {"kind": "WHAT WENT WRONG", "times": "TIMES"}, Format.TABLE)
    if totals.longest_steps:
        print("\nTHE LONGEST WAITS OF A LOOP FOR ITS DISK")
        print("\n".join(totals.waits()))
    for failure in failures[:SHOWN_FAILURES]:
        print(f"\nseed {failure.seed} failed\n{failure.text}")
    if len(failures) > SHOWN_FAILURES:
        print(f"\nand {len(failures) - SHOWN_FAILURES} more failed; replay them one by one")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Something to call after each seed with the number of failures: a bar, or a line now and then, on stderr."""
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda failed: bar.update(task, advance=1, description=f"{failed} failed" if failed else "")


def _lines(total: int) -> Callable[[int], None]:
    done, told = 0, time.monotonic()

    def advance(failed: int) -> None:
        nonlocal done, told
        done += 1
        if time.monotonic() >= told + LINE_EVERY_S:
            note(f"{done} of {total} seeds, {failed} failed")
            told = time.monotonic()

    return advance


def replay_one(seed: int, profile: str, messages: bool, keep: Path | None) -> bool:
    """Whether the seed failed."""
    trace: list[str] = []
    with work_directory() as directory:
        files = directory / f"{profile}-{seed}"
        outcome = simulate(seed, profile_named(profile), files, messages=messages, on_trace=trace.extend)
        if keep is not None:
            shutil.copytree(files, keep / files.name, dirs_exist_ok=True)
    print("\n".join(trace))
    if outcome.failed:
        print(f"\n{outcome.text}")
    else:
        note(f"seed {seed} passed: {outcome.virtual_s:.1f} virtual seconds, {outcome.steps} steps")
    return outcome.failed
