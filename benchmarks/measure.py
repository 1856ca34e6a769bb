"""Measures latencies, CPU and memory of processes, and describes the machine."""

import asyncio
import math
import os
import platform
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time that the process has used so far, with all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def reset_peak(pid: int) -> None:
    """Let `peak_bytes` count from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """Return the most memory that the process had since its start, or since `reset_peak`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kib) << 10


def descendants(pid: int) -> list[int]:
    """Return the process and its descendants that still run."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    pids, left = [], [pid]
    while left:
        pids.append(left.pop())
        left += children.get(pids[-1], [])
    return pids


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


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from the moment a record was due to be sent until its acknowledgement arrived."""

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency":
        """Summarise waits in seconds. Raises ValueError if there are none."""
        if not seconds:
            raise ValueError("no record was acknowledged in that time")
        ordered = sorted(value * 1000 for value in seconds)
        return cls(len(ordered), quantile(ordered, 0.5), quantile(ordered, 0.99), ordered[-1])


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of all values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def precise_loop() -> asyncio.AbstractEventLoop:
    """Return a loop on select(), since epoll rounds every wait up to a millisecond."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def environment() -> str:
    """Return a line that names the machine and the versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.machine())
    commit = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return (
        f"{os.cpu_count()} × {model}, Linux {platform.release()}, Python {platform.python_version()}, "
        f"grpcio {grpc.__version__}, replog {commit or 'unknown'}"
    )
