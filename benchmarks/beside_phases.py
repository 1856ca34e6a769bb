"""One cluster and one topic of many partitions beside a steady producer: made, written, deleted, and its files removed.

What is measured is the producer's wait, from the first moment of each phase to its end. It has a process of its own;
what the benchmark does itself, and what its processes cost on the machine, is on top.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from benchmarks.beside import Beside, Figures
from benchmarks.load import Load
from benchmarks.measure import CpuMeter
from benchmarks.partition_phases import TOPIC, Cell
from benchmarks.steady import PARTITIONS as STEADY_PARTITIONS
from benchmarks.steady import TOPIC as STEADY

BEFORE_S = 10.0
AFTER_S = 1.0  # what was put off meanwhile is part of it
WRITTEN_PER_SECOND = 100  # as many as the producer beside it sends: 250 take two cores whole


class BesideCell(Cell):
    """`Cell`, with other phases."""

    pause = 20  # who asks takes CPU, and what it is to the second is told well enough

    async def _life_of_a_topic(self) -> None:
        await self._contender.create(STEADY, STEADY_PARTITIONS)
        arguments = (self._contender.name, self._contender.bootstrap)
        async with Beside.running("benchmarks.steady", *arguments) as self._steady:
            await self._phases(
                {
                    "quiet": self._quiet,
                    "made": self._create,
                    "written": self._written,
                    "deleted": self._delete,
                    "removed": self._removed,
                }
            )

    async def _quiet(self) -> Figures:
        async with self._watched() as figures:
            await asyncio.sleep(BEFORE_S)
        return figures

    async def _written(self) -> Figures:
        """One record to each partition, so many a second."""
        async with self._watched() as figures, Load(self._send, TOPIC, self._partitions, WRITTEN_PER_SECOND) as load:
            await asyncio.sleep(self._partitions / WRITTEN_PER_SECOND)
        return {**figures, "own_p99_ms": load.latency().p99_ms, "failed_records": len(load.failed)}

    async def _removed(self) -> Figures:
        """The deleted files, from when the first of them go: a minute after the deletion, by `file.delete.delay.ms`."""
        await self._until_directories(lambda names: _left(names) < self._partitions)
        async with self._watched() as figures:
            await self._until_directories(lambda names: not _left(names))
        return figures

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[Figures]:
        """How long it takes, how long the steady producer's records wait meanwhile, and the cluster's CPU time."""
        figures: Figures = {}
        meter = CpuMeter(self._contender.pids)
        await self._steady.order("go")
        started = time.perf_counter()
        try:
            yield figures
            figures["seconds"] = time.perf_counter() - started
            await asyncio.sleep(AFTER_S)
        finally:
            steady = await self._steady.order("tell")
        figures |= {f"steady_{name}": figure for name, figure in steady.items()}
        figures["cpu_s"] = {name: round(used, 2) for name, used in meter.used().items()}


def _left(names: Iterable[str]) -> int:
    return sum(name.startswith(f"{TOPIC}-") for name in names)
