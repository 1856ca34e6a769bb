"""Decides, by the kernel's account of each process, if the machine had too little CPU for a run."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

WAITED = 0.4  # too much, as the share of time for which processes that could run waited for a CPU
OTHERS = 0.4  # the least share of all CPU time that must have gone to others, or to other machines on the host


class Account(NamedTuple):
    """The CPU time of processes since they began, in seconds."""

    at_s: float
    processes: dict[int, tuple[float, float]]  # the time that each ran, and that it waited to run


class Starved(Exception):
    """A deadline was missed on a machine that had too little CPU: no verdict on replog."""


def account(pids: Iterable[int]) -> Account:
    """Return the account of processes; empty if the kernel keeps none."""
    processes = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
            processes[pid] = int(ran) / 1e9, int(waited) / 1e9
    return Account(time.monotonic(), processes)


def strain(before: Account, after: Account) -> str:
    """Say how short of CPU processes were meanwhile; empty if they had enough, or used most of it themselves."""
    spent = [
        (ran - before.processes[pid][0], waited - before.processes[pid][1])
        for pid, (ran, waited) in after.processes.items()
        if pid in before.processes
    ]
    ran_s, waited_s = sum(ran for ran, _ in spent), sum(waited for _, waited in spent)
    share = waited_s / (ran_s + waited_s or 1.0)
    own = ran_s / ((after.at_s - before.at_s) * (os.cpu_count() or 1) or 1.0)
    if share < WAITED or own > 1 - OTHERS:
        return ""
    return (
        f"the cluster waited for a CPU {share:.0%} of the time that it could have run, and got {own:.0%} of all of it"
    )
