"""Runs many seeds, each in a child process, forked from a parent that has imported everything."""

import gc
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from replog.simulator.profiles import Profile
from replog.simulator.simulation import SeedOutcome, simulate

CPU_LIMIT_S = 120
WALL_LIMIT_S = 300.0
TRACE_NAME = "trace.txt"
FORKING = multiprocessing.get_context("fork")


class Child(NamedTuple):
    process: BaseProcess
    seed: int
    deadline: float


def run_seeds(
    seeds: Iterable[int], profile: Profile, *, jobs: int = 2, keep: Path | None = None
) -> Iterator[SeedOutcome]:
    """Yield outcomes as they come. Each failed seed leaves its disks and trace in `<profile>-<seed>` below `keep`.

    A seed fails if it takes more than 120 s of CPU or five minutes."""
    with work_directory() as directory:
        yield from _Pool(profile, directory, keep).run(iter(seeds), jobs)


@contextmanager
def work_directory() -> Iterator[Path]:
    """Yield a temporary directory, in memory if /dev/shm can be written."""
    shared = Path("/dev/shm")
    parent = shared if os.access(shared, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="replog-sim-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class _Pool:
    def __init__(self, profile: Profile, directory: Path, keep: Path | None) -> None:
        self._profile = profile
        self._directory = directory
        self._keep = keep
        self._children: dict[Connection, Child] = {}  # keys: the pipes of their outcomes

    def run(self, seeds: Iterator[int], jobs: int) -> Iterator[SeedOutcome]:
        gc.collect()
        gc.freeze()  # otherwise a collection in a child copies all memory that it shares with the parent
        try:
            while True:
                while len(self._children) < jobs and (seed := next(seeds, None)) is not None:
                    self._start(seed)
                if not self._children:
                    return
                yield from self._wait()
        finally:
            for child in self._children.values():
                child.process.kill()
                child.process.join()
            gc.unfreeze()

    def _start(self, seed: int) -> None:
        reading, writing = FORKING.Pipe(duplex=False)
        process = FORKING.Process(target=self._simulate, args=(seed, writing))
        process.start()
        writing.close()
        self._children[reading] = Child(process, seed, time.monotonic() + WALL_LIMIT_S)

    def _simulate(self, seed: int, pipe: Connection) -> None:
        """Run one seed in the child process, and send its outcome."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its children
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 1))
        gc.disable()
        try:
            outcome = run_here(seed, self._profile, self._directory, self._keep)
        except Exception:  # noqa: BLE001 (the simulation itself is broken, and the parent reports it)
            outcome = SeedOutcome(seed, self._profile.name, "defect", traceback.format_exc())
        outcome.cpu_s = round(time.process_time(), 3)
        pipe.send(outcome)

    def _wait(self) -> Iterator[SeedOutcome]:
        nearest = min(child.deadline for child in self._children.values())
        for pipe in wait(list(self._children), max(0.0, nearest - time.monotonic())):
            assert isinstance(pipe, Connection)
            yield self._finished(pipe, "")
        for pipe in [pipe for pipe, child in self._children.items() if child.deadline <= time.monotonic()]:
            self._children[pipe].process.kill()
            yield self._finished(pipe, f"it took more than {WALL_LIMIT_S:g} s")

    def _finished(self, pipe: Connection, why: str) -> SeedOutcome:
        child = self._children.pop(pipe)
        try:
            with pipe:
                outcome: SeedOutcome = pipe.recv()
            child.process.join()
        except (EOFError, OSError):
            child.process.join()
            why = why or f"the process ended with status {child.process.exitcode}"
            outcome = SeedOutcome(child.seed, self._profile.name, "defect", f"no verdict: {why}")
        return outcome


def run_here(seed: int, profile: Profile, directory: Path, keep: Path | None) -> SeedOutcome:
    """Run one seed in this process, with its files below `directory`."""
    files = directory / f"{profile.name}-{seed}"
    trace: list[str] = []
    outcome = simulate(seed, profile, files, on_trace=trace.extend if keep is not None else None)
    if keep is not None and outcome.failed:
        kept = keep / files.name
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(files, kept, ignore_dangling_symlinks=True)
        (kept / TRACE_NAME).write_text("\n".join(trace) + "\n")
        outcome.text += f"\nfiles and trace: {kept}"
    shutil.rmtree(files, ignore_errors=True)
    return outcome
