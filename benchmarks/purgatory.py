"""What a million waiting operations cost: the purgatory's timer beside the ones that it was chosen from, in one run.

Fill: operations with deadlines of 500 ms and 30 s come to wait. Mix: with all of those waiting, more come, 99 % of them
to be completed by an event within a few milliseconds of virtual time, 1 % to stay. Cancel: of all that waits 99 % are
completed, in any order. Expire: the rest, millisecond by millisecond. Each timer does the same history, drawn by one
seed, in a process of its own, and the timers take turns; figures are medians over the rounds. Memory is what the
process grew by during the fill. The worst pause is the longest that any single call took, in a round of its own, as
reading the clock at every call costs as much as the call. All times are of the CPU, so that others on the machine do
not count. The garbage collector is off, as it costs all of them alike.

Then the whole path of a delayed operation: checked, watched, checked again, and completed by an event on its key. Run
it with `make bench-purgatory`.
"""

import argparse
import gc
import json
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks.measure import environment
from benchmarks.timers import ALTERNATIVES, AnyTimer, Entry
from replog.purgatory.operation import DelayedOperation
from replog.purgatory.purgatory import Purgatory
from replog.purgatory.timer import Timer

TIMERS: dict[str, Callable[[], AnyTimer]] = {"replog": Timer, **ALTERNATIVES}
TIMEOUTS_MS = (500, 30_000)
FILL_MS = 400  # so that nothing is due before the mix is over
MIX_MS = 100
STAYS = 0.01  # of all operations: until their deadline
WITHIN_MS = 5  # the others: until an event at most so long after they came
AT_ONCE = (1, 100)  # under one key
KEYS = 100  # that the operations of the whole path wait under
SEED = 1

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TimerFigures:
    """One timer; times in nanoseconds an operation, but for the pause."""

    timer: str
    fill_ns: float
    mix_ns: float
    cancel_ns: float
    expire_ns: float
    bytes_each: float
    worst_pause_ms: float


class Clock:
    """Times phases as a whole, or every call alone."""

    def __init__(self, *, every_call: bool) -> None:
        self.every_call = every_call
        self.worst_s = 0.0

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if not self.every_call:
            return function(*arguments)
        started = time.thread_time()
        result = function(*arguments)
        self.worst_s = max(self.worst_s, time.thread_time() - started)
        return result


def history(timer: AnyTimer, operations: int, clock: Clock) -> dict[str, float]:
    """Nanoseconds an operation of every phase, and bytes for each waiting one."""
    chance = random.Random(SEED)
    call = clock.call
    timeouts = chance.choices(TIMEOUTS_MS, k=operations)
    before = resident_bytes()
    started = time.thread_time()
    waiting = [
        call(timer.add, index * FILL_MS // operations + timeout_ms, index) for index, timeout_ms in enumerate(timeouts)
    ]
    fill_s = time.thread_time() - started
    bytes_each = (resident_bytes() - before) / operations

    per_ms = operations // 2 // MIX_MS
    plan = [
        [
            (chance.choice(TIMEOUTS_MS), WITHIN_MS if chance.random() < STAYS else chance.randrange(WITHIN_MS))
            for _ in range(per_ms)
        ]
        for _ in range(MIX_MS)
    ]
    completed: list[list[Entry]] = [[] for _ in range(MIX_MS + WITHIN_MS)]
    started = time.thread_time()
    for elapsed_ms, coming in enumerate(plan):
        now_ms = FILL_MS + elapsed_ms
        for timeout_ms, stays_ms in coming:
            entry = call(timer.add, now_ms + timeout_ms, 0)
            (waiting if stays_ms == WITHIN_MS else completed[elapsed_ms + stays_ms]).append(entry)
        for entry in completed[elapsed_ms]:
            call(entry.cancel)
        call(take_due, timer, now_ms)
    mix_s = time.thread_time() - started
    for left in completed[MIX_MS:]:
        waiting += left
    mixed = per_ms * MIX_MS

    chance.shuffle(waiting)
    expiring = max(1, int(len(waiting) * STAYS))
    cancelled = waiting[expiring:]
    started = time.thread_time()
    for entry in cancelled:
        call(entry.cancel)
    cancel_s = time.thread_time() - started

    now_ms, taken = FILL_MS + MIX_MS, 0
    started = time.thread_time()
    while taken < expiring:
        taken += call(take_due, timer, now_ms)
        now_ms += 1
    expire_s = time.thread_time() - started
    return {
        "fill_ns": fill_s / operations * 1e9,
        "mix_ns": mix_s / mixed * 1e9,
        "cancel_ns": cancel_s / len(cancelled) * 1e9,
        "expire_ns": expire_s / expiring * 1e9,
        "bytes_each": bytes_each,
    }


def take_due(timer: AnyTimer, now_ms: int) -> int:
    timer.next_deadline_ms()
    return sum(1 for _ in timer.due(now_ms))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Waiting(DelayedOperation[int]):
    """Completes once its condition, looked up as a produce looks up its partition's high watermark, holds."""

    def __init__(self, key: int, required: int, reached: list[int]) -> None:
        super().__init__(TIMEOUTS_MS[1])
        self._key = key
        self._required = required
        self._reached = reached

    def try_complete(self, moved: Collection[int]) -> bool:
        return self._reached[self._key] >= self._required and self.force_complete()

    def on_complete(self) -> None: ...


def whole_path(operations: int, at_once: int) -> float:
    """Nanoseconds an operation: `at_once` come to wait under every key, then an event completes them."""
    purgatory: Purgatory[int] = Purgatory()
    reached = [0] * KEYS
    started = time.thread_time()
    done = 0
    now_ms = 0
    while done < operations:
        now_ms += 1
        for key in range(KEYS):
            for number in range(at_once):
                purgatory.complete_or_watch(Waiting(key, reached[key] + number + 1, reached), (key,), now_ms)
            reached[key] += at_once
            done += purgatory.check((key,))
        purgatory.expire(now_ms)
    return (time.thread_time() - started) / done * 1e9


def measured(work: Callable[..., Any], *arguments: Any) -> Any:
    """`work` in a process of its own, which begins with no garbage of others and none of this process's threads."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    with processes.Pool(1) as pool:
        return pool.apply(_collected, (work, arguments))


def _collected(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    gc.collect()
    gc.disable()
    return work(*arguments)


def _round(name: str, operations: int) -> dict[str, float]:
    return history(TIMERS[name](), operations, Clock(every_call=False))


def _worst_pause_ms(name: str, operations: int) -> float:
    clock = Clock(every_call=True)
    history(TIMERS[name](), operations, clock)
    return clock.worst_s * 1000


def _path_round(name: str, operations: int, at_once: int) -> float:
    with patch("replog.purgatory.purgatory.Timer", TIMERS[name]):
        return whole_path(operations, at_once)


def run(operations: int, rounds: int, note: Note) -> dict[str, Any]:
    """Every timer's figures, and those of the whole path with each timer that can be asked for its next deadline."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in TIMERS}
    pauses: dict[str, list[float]] = {name: [] for name in TIMERS}
    paths = {(name, at_once): list[float]() for name in TIMERS if name != "asyncio" for at_once in AT_ONCE}
    for number in range(rounds):
        for name in TIMERS:
            note(f"round {number + 1} of {rounds}: {name}")
            found[name].append(measured(_round, name, operations))
            pauses[name].append(measured(_worst_pause_ms, name, operations))
        for (name, at_once), figures in paths.items():
            note(f"round {number + 1} of {rounds}: the whole path with {name}")
            figures.append(measured(_path_round, name, max(operations // 4, KEYS), at_once))
    timers = [
        TimerFigures(
            name,
            **{phase: statistics.median(row[phase] for row in rows) for phase in rows[0]},
            worst_pause_ms=statistics.median(pauses[name]),
        )
        for name, rows in found.items()
    ]
    return {
        "operations": operations,
        "timers": [asdict(figures) for figures in timers],
        "whole_path": [
            {"timer": name, "at_once": at_once, "ns": statistics.median(figures)}
            for (name, at_once), figures in paths.items()
        ],
        "environment": environment(),
    }


def show(report: dict[str, Any], console: Console) -> None:
    title = f"{report['operations']:,} waiting operations; times an operation"
    columns = ("timer", "fill, ns", "mix, ns", "cancel, ns", "expire, ns", "memory, bytes", "worst pause, ms")
    table = Table(*columns, title=title)
    for figures in report["timers"]:
        name, *values = figures.values()
        table.add_row(name, *(f"{value:,.0f}" for value in values[:-1]), f"{values[-1]:,.2f}")
    console.print(table)
    paths = Table("timer", "waiting under one key", "ns", title="The whole path of an operation")
    for path in report["whole_path"]:
        paths.add_row(path["timer"], str(path["at_once"]), f"{path['ns']:,.0f}")
    console.print(paths)
    console.print(report["environment"], highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--operations", type=int, default=1_000_000, help="that wait")
    options = parser.parse_args()
    if options.operations < 1000 or options.rounds < 1:
        parser.error("needs --operations 1000 and --rounds 1 at least")
    console = Console(stderr=True)
    with console.status("") as status:
        report = run(options.operations, options.rounds, status.update)
    if options.format == "json":
        print(json.dumps(report, indent=2))
    else:
        show(report, Console())


if __name__ == "__main__":
    main()
