"""`replog sim …`: whole clusters under virtual time, with every fault drawn from a seed."""

import json
import shutil
import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replog.cli.options import OutputFormat
from replog.command.app import App
from replog.command.ending import PROBLEM_FOUND
from replog.command.output import Format, note, print_rows, status
from replog.config.properties import MAX_LONG
from replog.simulator.profiles import PROFILES

if TYPE_CHECKING:
    from replog.simulator.runner import SeedTotals
    from replog.simulator.simulation import SeedOutcome

SHOWN_FAILURES = 5
VACUOUS = 3  # exit status

app = App(
    help="Run clusters of the shipped broker, controller and clients under virtual time, with faults from a seed."
)

ProfileName = StrEnum("ProfileName", {name: name for name in PROFILES})  # type: ignore[misc]
_LISTED = "; ".join(f"`{profile.name}`: {profile.description}" for profile in PROFILES.values())
ProfileOption = Annotated[ProfileName, typer.Option("--profile", metavar="NAME", help=_LISTED)]
SWARM = ProfileName("swarm")


@app.command()
def run(
    seeds: Annotated[int, typer.Option(min=1, max=MAX_LONG, help="How many.")] = 100,
    first_seed: Annotated[int, typer.Option(min=0, max=MAX_LONG, help="The others follow it.")] = 1,
    profile: ProfileOption = SWARM,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="How many at a time.")] = 2,
    keep: Annotated[Path | None, typer.Option(help="A directory for the disks and traces of seeds that fail.")] = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Run many seeds. Each is a cluster of its own, with its own topics, clients, faults and end.

    Every invariant is checked after every step, and what clients saw in the end. For a seed that fails it prints the
    invariant, what was seen, the last events about it, and the command that replays it. Exit status: 0 all passed,
    1 some failed, 3 all passed and did nothing of what the profile is about, so that nothing is shown.

    Example: `replog sim run --seeds 1000 --profile storm`"""
    if status := run_many(seeds, first_seed, str(profile), jobs, keep, as_json=output is Format.JSON):
        raise typer.Exit(status)


@app.command()
def replay(
    seed: Annotated[int, typer.Option(min=0, max=MAX_LONG, help="The seed.")],
    profile: ProfileOption = SWARM,
    messages: Annotated[bool, typer.Option("--messages", help="Print every message between processes too.")] = False,
    keep: Annotated[Path | None, typer.Option(help="A directory for its disks at the end.")] = None,
) -> None:
    """Run one seed again and print its trace: an aligned line for each event. It is the same every time.

    The verdict comes last, on stderr if the seed passes. Exit status: 0 it passed, 1 it failed.

    Example: `replog sim replay --profile storm --seed 42 | less -S`"""
    from replog.simulator.runner import work_directory
    from replog.simulator.simulation import simulate

    trace: list[str] = []
    with work_directory() as directory:
        files = directory / f"{profile}-{seed}"
        outcome = simulate(seed, PROFILES[profile], files, messages=messages, on_trace=trace.extend)
        if keep is not None:
            shutil.copytree(files, keep / files.name, dirs_exist_ok=True)
    print("\n".join(trace))
    if outcome.failed:
        print(f"\n{outcome.text}")
        raise typer.Exit(PROBLEM_FOUND)
    note(f"seed {seed} passed: {outcome.virtual_s:.1f} virtual seconds, {outcome.steps} steps")


def run_many(seeds: int, first_seed: int, profile: str, jobs: int, keep: Path | None, *, as_json: bool) -> int:
    """Run seeds and return the exit status. After an interrupt, the results so far are printed."""
    from replog.simulator.runner import SeedTotals, run_seeds, vacuous

    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    totals = SeedTotals(profile, first_seed)
    failures: list[SeedOutcome] = []
    started = time.monotonic()
    try:
        with status() as show:
            wanted = range(first_seed, first_seed + seeds)
            for outcome in run_seeds(wanted, PROFILES[profile], jobs=jobs, keep=keep):
                totals.add(outcome)
                show(f"{totals.seeds} of {seeds} seeds, {len(totals.failed)} failed")
                if outcome.failed:
                    failures.append(outcome)
    finally:
        totals.wall_s = time.monotonic() - started
        if as_json:
            print(json.dumps({**totals.plain(), "failures": [asdict(failure) for failure in failures]}, indent=2))
        else:
            _print(totals, failures)
    if failures:
        return PROBLEM_FOUND
    if reason := vacuous(PROFILES[profile], totals.seeds, totals.exercised):
        note(reason)
    return VACUOUS if reason else 0


def _print(totals: "SeedTotals", failures: "list[SeedOutcome]") -> None:
    rows = [{"what": name, "value": value} for name, value in totals.figures().items()]
    print_rows(rows, {"what": f"PROFILE {totals.profile}", "value": ""}, Format.TABLE)
    for heading, counts in (("WHAT WAS EXERCISED", totals.exercised), ("WHAT WENT WRONG", totals.faults)):
        if times := [{"kind": kind, "times": count} for kind, count in sorted(counts.items())]:
            print()
            print_rows(times, {"kind": heading, "times": "TIMES"}, Format.TABLE)
    for failure in failures[:SHOWN_FAILURES]:
        print(f"\nseed {failure.seed} failed\n{failure.text}")
    if len(failures) > SHOWN_FAILURES:
        print(f"\nand {len(failures) - SHOWN_FAILURES} more failed; replay them one by one")
