"""Measures latencies, CPU and memory of processes."""

import asyncio
import math
import os
import selectors
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_OF_A_PROCESS = 2  # a clock's low bits; the inverted id is above them (clock_getcpuclockid(3))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the process has used so far, with all threads. Raises OSError if it has ended."""
    return time.clock_gettime(~pid << 3 | _OF_A_PROCESS)  # /proc has it in steps of 10 ms, too coarse for short rows


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def reset_peak(pid: int) -> None:
    """Let `peak_bytes` count from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """Return the most memory that the process had since its start, or since `reset_peak`."""
    return bytes_of(f"/proc/{pid}/status", "VmHWM")


def bytes_of(path: str, name: str) -> int:
    """Return a value that the kernel shows in KiB."""
    (kib,) = (line.split()[1] for line in Path(path).read_text().splitlines() if line.startswith(f"{name}:"))
    return int(kib) << 10


class CpuMeter:
    """Measures the CPU of named processes since it was made."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._started = time.perf_counter()
        self._before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    def used(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) - self._before[name] for name, pid in self._pids.items()}

    def percent(self) -> dict[str, float]:
        """Return each process's use in percent of a core."""
        seconds = time.perf_counter() - self._started
        return {name: 100 * used / seconds for name, used in self.used().items()}


class Latency(NamedTuple):
    """Milliseconds from the moment a record was due to be sent until its acknowledgement arrived."""

    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency":
        """Summarise waits in seconds. Raises ValueError if there are none."""
        if not seconds:
            raise ValueError("no record was acknowledged in that time")
        ordered = sorted(value * 1000 for value in seconds)
        return cls(quantile(ordered, 0.5), quantile(ordered, 0.99), ordered[-1])


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of all values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def precise_loop() -> asyncio.AbstractEventLoop:
    """Return a loop on select(), since epoll rounds every wait up to a millisecond."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())
