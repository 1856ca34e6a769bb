"""Runs many seeds, each in a child process, forked from a parent that has imported everything; and adds up results."""

import gc
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from replog.simulator.profiles import Profile
from replog.simulator.simulation import COMPARED, ELECTIONS, FAULTS, UNCLEAN, SeedOutcome, simulate

CPU_LIMIT_S = 120
WALL_LIMIT_S = 1800.0  # it ends what stands still; a busy machine may give a process little CPU
FORKING = multiprocessing.get_context("fork")
ENOUGH_SEEDS = 20  # fewer seeds may miss something by chance
ABOUT = {  # some seeds of a profile must have had these, besides faults; a profile that is not here: elections
    "calm": (),
    "compaction": ("cleanings", ELECTIONS),
    "crashes": (ELECTIONS, "truncations"),
    "directories": ("moves between directories",),
    "elections": (UNCLEAN,),
    "isr": ("changes of the ISR",),
    "laggards": ("truncations",),
    "moves": ("moves to other brokers", ELECTIONS),
    "permission": ("refusals",),
    "storm": (ELECTIONS, "truncations"),
    "transactions": ("transactions", ELECTIONS),
    "unclean": (UNCLEAN,),
}


class Child(NamedTuple):
    process: BaseProcess
    seed: int
    deadline: float


def run_seeds(
    seeds: Iterable[int], profile: Profile, *, jobs: int = 2, keep: Path | None = None
) -> Iterator[SeedOutcome]:
    """Yield outcomes as they come. Each failed seed leaves its disks and trace in `<profile>-<seed>` below `keep`.

    A seed fails if it takes more than 120 s of CPU or half an hour."""
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
            outcome = self._run(seed)
        except Exception:  # noqa: BLE001 (the simulation itself is broken, and the parent reports it)
            outcome = SeedOutcome(seed, self._profile.name, "defect", traceback.format_exc())
        outcome.cpu_s = round(time.process_time(), 3)
        pipe.send(outcome)

    def _run(self, seed: int) -> SeedOutcome:
        """Run one seed in this process, with its files below the directory."""
        files, trace = self._directory / f"{self._profile.name}-{seed}", list[str]()
        outcome = simulate(seed, self._profile, files, on_trace=trace.extend if self._keep is not None else None)
        if self._keep is not None and outcome.failed:
            kept = self._keep / files.name
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(files, kept, ignore_dangling_symlinks=True)
            (kept / "trace.txt").write_text("\n".join(trace) + "\n")
            outcome.text += f"\nfiles and trace: {kept}"
        shutil.rmtree(files, ignore_errors=True)
        return outcome

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


@dataclass
class SeedTotals:
    profile: str
    first_seed: int
    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    virtual_s: float = 0.0
    events: int = 0
    operations: int = 0
    acknowledged: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    longest_wait_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    exercised: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: SeedOutcome) -> None:
        self.seeds += 1
        if outcome.failed:
            self.failed.append(outcome.seed)
        self.virtual_s += outcome.virtual_s
        self.events += outcome.steps
        self.operations += outcome.operations
        self.acknowledged += outcome.acknowledged
        self.cpu_s += outcome.cpu_s
        self.faults.update(outcome.faults)
        self.exercised.update(outcome.exercised)
        self.longest_wait_s = max(self.longest_wait_s, outcome.longest_wait_s)

    def figures(self) -> dict[str, str]:
        seeds = max(1, self.seeds)
        return {
            "seeds": f"{self.seeds} from {self.first_seed} on",
            "failed": ", ".join(map(str, sorted(self.failed))) or "none",
            "simulated hours": f"{self.virtual_s / 3600:.2f}",
            "events": f"{self.events:,}",
            "events a second of CPU": f"{self.events / max(self.cpu_s, 1e-9):,.0f}",
            "client operations": f"{self.operations:,}",
            "records acknowledged": f"{self.acknowledged:,}",
            "longest wait where a majority could serve": f"{self.longest_wait_s:.1f} s",
            "CPU a seed": f"{self.cpu_s / seeds:.2f} s",
            "took": f"{self.wall_s:.0f} s",
        }

    def plain(self) -> dict[str, object]:
        kinds = {
            name: dict(sorted(counts.items())) for name, counts in vars(self).items() if isinstance(counts, Counter)
        }
        return {**vars(self), **kinds, "failed": sorted(self.failed)}


def vacuous(profile: Profile, seeds: int, counts: Mapping[str, int]) -> str:
    """Return a sentence that says why seeds that passed show nothing; empty if they show something."""
    wanted = [COMPARED]
    if seeds >= ENOUGH_SEEDS:
        wanted += [*([FAULTS] if profile.faults else []), *ABOUT.get(profile.name, (ELECTIONS,))]
    missing = [what for what in wanted if not counts.get(what)]
    return f"vacuous: {seeds} seeds of {profile.name} passed, without any {', any '.join(missing)}" if missing else ""
