"""Logs slow steps of the event loop, with their names, and says how busy the loop is.

From one `await` to the next a task has the loop to itself; heartbeats, requests and answers wait. A step may be slow
because of its computation, a garbage collection, or a wait for a disk or a busy processor."""

import asyncio
import gc
import threading
from time import monotonic, thread_time

import structlog

log = structlog.get_logger()

SLOW_S = 0.05
FRESH_S = 0.005
WINDOW_S = 60.0
NAMES = 100  # more names of slow steps are counted together


class SlowSteps:
    """Logs each step of this thread's loops that takes `SLOW_S` or more: its time, its CPU time (with up to 5 ms of
    earlier steps), and how much of that went into full garbage collections.

    It costs a step some 0.3 us. Asking for CPU time costs three times as much, so it is done only now and then.

    asyncio has no public place for this: `slow_callback_duration` works in debug mode only, which makes a step of 2 us
    one of 30."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._asked_s = float("-inf")
        self._cpu_s = 0.0  # CPU time when it was asked for last
        self._collecting_s = 0.0  # garbage collection during this step
        self.slow: dict[str, int] = {}  # counts of slow steps, by name
        self._longest_s = self._longest_before_s = 0.0  # this window, and the one before
        self._busy_s = 0.0  # all steps since the start
        self._mark = self._mark_before = (monotonic(), 0.0)  # when these windows began, and `_busy_s` then

    def watch(self) -> None:
        """Watch all steps from now on, for as long as the process lives."""
        run = asyncio.Handle._run

        def run_and_tell(handle: asyncio.Handle) -> None:
            begun_s = monotonic()
            if begun_s - self._asked_s > FRESH_S:
                self._asked_s, self._cpu_s = begun_s, thread_time()
            self._collecting_s = 0.0
            run(handle)
            elapsed_s = monotonic() - begun_s
            self._busy_s += elapsed_s
            if elapsed_s > self._longest_s:
                self._longest_s = elapsed_s
            if elapsed_s >= SLOW_S:
                self._report(handle, elapsed_s)

        asyncio.Handle._run = run_and_tell  # type: ignore[method-assign, assignment]  # the loop calls nothing else
        gc.callbacks.append(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2 and threading.get_ident() == self._thread:
            self._collecting_s += thread_time() if phase == "stop" else -thread_time()

    def longest_s(self) -> float:
        """Return the longest step of the last one to two minutes."""
        self._turn()
        return max(self._longest_s, self._longest_before_s)

    def idle_share(self) -> float:
        """Return the share of the last one to two minutes without any step, 0 to 1. A step that waits is not idle."""
        now_s = self._turn()
        since_s, busy_s = self._mark_before
        return max(0.0, 1 - (self._busy_s - busy_s) / (now_s - since_s)) if now_s > since_s else 1.0

    def _turn(self) -> float:
        """Begin a new window if this one is over, and return the time."""
        now_s = monotonic()
        if now_s >= self._mark[0] + WINDOW_S:
            self._longest_before_s, self._longest_s = self._longest_s, 0.0
            self._mark_before, self._mark = self._mark, (now_s, self._busy_s)
        return now_s

    def _report(self, handle: asyncio.Handle, elapsed_s: float) -> None:
        name = _name(handle)
        known = name if name in self.slow or len(self.slow) < NAMES else "others"
        self.slow[known] = self.slow.get(known, 0) + 1
        log.warning(
            "slow step",
            step=name,
            ms=round(1000 * elapsed_s),
            cpu_ms=round(1000 * (thread_time() - self._cpu_s)),
            collecting_ms=round(1000 * self._collecting_s),
        )


def _name(handle: asyncio.Handle) -> str:
    callback = handle._callback  # type: ignore[attr-defined]
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        name = getattr(callback, "__qualname__", repr(callback))
        if isinstance(task, asyncio.Transport):  # a connection handles messages as it reads them
            return f"{name}: {task.get_protocol()}"
        return name
    coroutine = task.get_coro()
    return f"{task.get_name()}: {getattr(coroutine, '__qualname__', coroutine)}"
