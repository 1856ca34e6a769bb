"""What a million waiting operations cost: the purgatory's timer, and the whole path of a delayed operation.

Fill: operations with deadlines of 500 ms and 30 s come to wait. Mix: with all of those waiting, more come, 99 % of them
to be completed by an event within a few milliseconds of virtual time, 1 % to stay. Cancel: of all that waits 99 % are
completed, in any order. Expire: the rest, millisecond by millisecond. Every round does the same history, drawn by one
seed, in a process of its own; figures are medians over the rounds. Memory is what the process grew by during the fill.
The worst pause is the longest that any single call took, in a round of its own, as reading the clock at every call
costs as much as the call. All times are of the CPU, so that others on the machine do not count. The garbage collector
is off.

The whole path: an operation is checked, watched, checked again, and completed by an event on its key. Run it with
`make bench-purgatory`.
"""

import gc
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable, Collection
from typing import Any

from rich.console import Console

from benchmarks.measure import rss_bytes
from benchmarks.report import benchmark_parser, publish, table
from replog.purgatory.operation import DelayedOperation
from replog.purgatory.purgatory import Purgatory
from replog.purgatory.timer import Timer, TimerEntry

TIMEOUTS_MS = (500, 30_000)
FILL_MS = 400  # so that nothing is due before the mix is over
MIX_MS = 100
STAYS = 0.01  # of all operations: until their deadline
WITHIN_MS = 5  # the others: until an event at most so long after they came
AT_ONCE = (1, 100)  # under one key
KEYS = 100  # that the operations of the whole path wait under
SEED = 1

Note = Callable[[str], None]


class Stopwatch:
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


def history(timer: Timer[int], operations: int, clock: Stopwatch) -> dict[str, float]:
    """Nanoseconds an operation of every phase, and bytes for each waiting one."""
    chance = random.Random(SEED)
    call = clock.call
    timeouts = chance.choices(TIMEOUTS_MS, k=operations)
    before = rss_bytes(os.getpid())
    started = time.thread_time()
    waiting = [
        call(timer.add, index * FILL_MS // operations + timeout_ms, index) for index, timeout_ms in enumerate(timeouts)
    ]
    fill_s = time.thread_time() - started
    bytes_each = (rss_bytes(os.getpid()) - before) / operations

    per_ms = operations // 2 // MIX_MS
    plan = [
        [
            (chance.choice(TIMEOUTS_MS), WITHIN_MS if chance.random() < STAYS else chance.randrange(WITHIN_MS))
            for _ in range(per_ms)
        ]
        for _ in range(MIX_MS)
    ]
    completed: list[list[TimerEntry[int]]] = [[] for _ in range(MIX_MS + WITHIN_MS)]
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


def take_due(timer: Timer[int], now_ms: int) -> int:
    timer.next_deadline_ms()
    return sum(1 for _ in timer.due(now_ms))


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


def _timer_round(operations: int) -> dict[str, float]:
    return history(Timer(), operations, Stopwatch(every_call=False))


def _worst_pause_ms(operations: int) -> float:
    clock = Stopwatch(every_call=True)
    history(Timer(), operations, clock)
    return clock.worst_s * 1000


def run(operations: int, rounds: int, note: Note) -> dict[str, float]:
    """Medians: the timer's figures, and nanoseconds of the whole path by how many operations wait under one key."""
    by_name: dict[str, list[float]] = {}
    for number in range(rounds):
        note(f"round {number + 1} of {rounds}: the timer")
        figures = measured(_timer_round, operations)
        figures["worst_pause_ms"] = measured(_worst_pause_ms, operations)
        note(f"round {number + 1} of {rounds}: the whole path")
        for at_once in AT_ONCE:
            figures[f"whole_path_{at_once}_ns"] = measured(whole_path, max(operations // 4, KEYS), at_once)
        for name, value in figures.items():
            by_name.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in by_name.items()}


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--operations", type=int, default=1_000_000, help="that wait")
    options = parser.parse_args()
    if options.operations < 1000 or options.rounds < 1:
        parser.error("needs --operations 1000 and --rounds 1 at least")
    with Console(stderr=True).status("") as status:
        figures = run(options.operations, options.rounds, status.update)
    title = f"of {options.operations:,} waiting operations"
    shown = table([title, "median, for one"], [[name, f"{value:,.1f}"] for name, value in figures.items()])
    publish("purgatory", shown, {"operations": options.operations, "figures": figures}, options)


if __name__ == "__main__":
    main()
