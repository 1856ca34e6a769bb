"""Many seeds, each in a child of its own, forked from a parent that has imported everything."""

import gc
import json
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from replog.simulator.profiles import Profile
from replog.simulator.simulation import SeedOutcome, simulate

CPU_LIMIT_S = 120
WALL_LIMIT_S = 300.0
TRACE_NAME = "trace.txt"


@dataclass(slots=True)
class Child:
    pid: int
    seed: int
    pipe: int
    deadline: float
    answer: bytes = b""


def run_seeds(
    seeds: Iterable[int], profile: Profile, *, jobs: int = 2, keep: Path | None = None
) -> Iterator[SeedOutcome]:
    """The outcomes, as they come. Of failed seeds, `keep` gets disks and trace, in `<profile>-<seed>`.

    A seed that takes more than 120 s of CPU or five minutes has failed.
    """
    with work_directory() as directory:
        yield from _Pool(profile, directory, keep).run(iter(seeds), jobs)


@contextmanager
def work_directory() -> Iterator[Path]:
    """In memory if there is such a place; removed at the end."""
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
        self._children: dict[int, Child] = {}  # by pipe
        self._selector = selectors.DefaultSelector()

    def run(self, seeds: Iterator[int], jobs: int) -> Iterator[SeedOutcome]:
        gc.collect()
        gc.freeze()  # what is here stays shared with the children
        try:
            while True:
                while len(self._children) < jobs and (seed := next(seeds, None)) is not None:
                    self._start(seed)
                if not self._children:
                    return
                yield from self._wait()
        finally:
            for child in self._children.values():
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                os.close(child.pipe)
            self._selector.close()
            gc.unfreeze()

    def _start(self, seed: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            self._child(seed, writing)
        os.close(writing)
        self._children[reading] = Child(pid, seed, reading, time.monotonic() + WALL_LIMIT_S)
        self._selector.register(reading, selectors.EVENT_READ)

    def _child(self, seed: int, pipe: int) -> NoReturn:
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its children
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 1))
            gc.disable()
            try:
                outcome = run_here(seed, self._profile, self._directory, self._keep)
            except Exception:  # noqa: BLE001 (the simulation itself is broken: the parent is to tell)
                outcome = SeedOutcome(seed, self._profile.name, "defect", traceback.format_exc())
            with os.fdopen(pipe, "wb") as file:
                file.write(json.dumps(outcome.plain()).encode())
            status = 0
        except BaseException:  # noqa: BLE001 (nothing may get back into the parent's code)
            traceback.print_exc()
        finally:
            os._exit(status)

    def _wait(self) -> Iterator[SeedOutcome]:
        nearest = min(child.deadline for child in self._children.values())
        for key, _ in self._selector.select(max(0.0, nearest - time.monotonic())):
            child = self._children[key.fd]
            piece = os.read(key.fd, 1 << 16)
            child.answer += piece
            if not piece:
                yield self._finished(child, "")
        for child in [child for child in self._children.values() if child.deadline <= time.monotonic()]:
            os.kill(child.pid, signal.SIGKILL)
            yield self._finished(child, f"it took more than {WALL_LIMIT_S:g} s")

    def _finished(self, child: Child, why: str) -> SeedOutcome:
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        del self._children[child.pipe]
        _, status, used = os.wait4(child.pid, 0)
        try:
            outcome = SeedOutcome(**json.loads(child.answer))
        except ValueError:
            outcome = SeedOutcome(child.seed, self._profile.name, "defect")
            ended = os.waitstatus_to_exitcode(status)
            outcome.text = f"no verdict: {why or f'the process ended with status {ended}'}"
        outcome.cpu_s = round(used.ru_utime + used.ru_stime, 3)
        return outcome


def run_here(seed: int, profile: Profile, directory: Path, keep: Path | None) -> SeedOutcome:
    """One seed in this process, its files below `directory`."""
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
