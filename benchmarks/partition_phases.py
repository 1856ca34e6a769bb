"""Measures each phase of one topic with many partitions, on one cluster, from its creation to its deletion.

While it is created, deleted and removed, a separate process produces steadily, and the waits of its records are
measured. Each phase has a time limit, and so has the whole. A phase that does not finish has the result "not within
N s".
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiokafka.errors import KafkaError

from benchmarks.beside import Beside, Figures
from benchmarks.load import Load, write_everywhere
from benchmarks.measure import CpuMeter, rss_bytes
from benchmarks.peers.peer import BROKERS, CONTROLLER, Cluster, DescribedPartition, broker_name, in_sync
from benchmarks.steady import PARTITIONS as STEADY_PARTITIONS
from benchmarks.steady import TOPIC as STEADY
from replog.errors import ReplogError

TOPIC = "many"
PER_SECOND = 1000
VICTIM, ORDERLY = 2, 3  # the broker that is killed, and the one that is restarted in order
WARM_UP_S = 5.0  # each partition's first record and a JVM's compiler need it
SETTLE_S = 3.0
QUIET_S = 10.0  # the steady producer runs alone
AFTER_S = 1.0  # the steady producer still runs, so that delayed work counts
POLL_S, PAUSE = 0.05, 5  # the least pause between two looks at the state, and as a multiple of a look's time
PAUSE_BESIDE = 20  # the multiple for looks at disks while the steady producer runs, since a look takes CPU
MIB = 1 << 20

LIMIT_S = 60.0
LONG_S = {"start": 120.0, "create": 120.0, "removed": 180.0}


class Cell:
    """One cluster with one number of partitions. `figures` has a dictionary for each phase that began."""

    def __init__(
        self, cluster: Cluster, partitions: int, seconds: float, idle_s: float, note: Callable[[str], None]
    ) -> None:
        """Load lasts for `seconds`, the idle phase for `idle_s`."""
        self._cluster = cluster
        self._partitions = partitions
        self._seconds = seconds
        self._idle_s = idle_s
        self._note = note
        self.figures: dict[str, Figures] = {}

    async def run(self, limit_s: float) -> dict[str, Figures]:
        """Run all phases that can begin within `limit_s`, and return `figures`."""
        self._deadline = time.perf_counter() + limit_s
        try:
            if await self._phase("start", self._start):
                async with self._cluster.producer() as self._send:
                    await self._life_of_a_topic()
        finally:
            await self._cluster.close()
        return self.figures

    async def _life_of_a_topic(self) -> None:
        await self._cluster.create(STEADY, STEADY_PARTITIONS)
        phases = {
            "quiet": self._quiet,
            "create": self._create,
            "first": self._first,
            "load": self._load,
            "idle": self._idle,
            "fail_over": self._fail_over,
            "restart": self._restart,
            "orderly": self._orderly,
            "delete": self._delete,
            "removed": self._removed,
        }
        arguments = (self._cluster.name, self._cluster.bootstrap)
        async with Beside.running("benchmarks.steady", *arguments) as self._steady:
            for name, phase in phases.items():
                if not await self._phase(name, phase) and phase == self._create:
                    return  # the others need the topic

    async def _phase(self, name: str, body: Callable[[], Awaitable[Figures]]) -> bool:
        """Run a phase, and return True if it finished."""
        limit_s = min(LONG_S.get(name, LIMIT_S), self._deadline - time.perf_counter())
        where = f"{self._cluster.name}, {self._partitions} partitions, {name}"
        if limit_s <= 0:
            self._note(f"{where}: not begun, no time is left")
            self.figures[name] = {"not_begun": True}
            return False
        started = time.perf_counter()
        try:
            async with asyncio.timeout(limit_s):
                figures = await body()
        except TimeoutError:
            figures = {"not_within_s": round(time.perf_counter() - started)}
        except (ReplogError, KafkaError, OSError, ValueError, ExceptionGroup) as error:
            figures = {"failed": f"{error!r}"[:500]}
        self.figures[name] = figures
        summary = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in figures.items()
        )
        self._note(f"{where}: {summary}")
        return not figures.keys() & {"not_within_s", "failed"}

    # -- phases

    async def _start(self) -> Figures:
        started = time.perf_counter()
        await self._cluster.start()
        return {"seconds": time.perf_counter() - started}

    async def _quiet(self) -> Figures:
        async with self._beside_a_producer() as figures:
            await asyncio.sleep(QUIET_S)
        return figures

    async def _create(self) -> Figures:
        """Create the topic, until every broker has every replica on its disk and all are in sync."""
        async with self._beside_a_producer() as figures:
            await self._cluster.create(TOPIC, self._partitions)
            await self._until_directories(lambda names: sum(map(_is_replica, names)) == self._partitions)
            await self._until(lambda states: len(states) == self._partitions and in_sync(states))
        return figures

    async def _first(self) -> Figures:
        async with self._timed() as figures:
            await write_everywhere(self._send, TOPIC, self._partitions)
        return figures

    async def _load(self) -> Figures:
        async with self._timed() as figures, Load(self._send, TOPIC, self._partitions, PER_SECOND) as load:
            await asyncio.sleep(WARM_UP_S)
            meter, begun = CpuMeter({"client": os.getpid(), **self._cluster.members}), time.perf_counter()
            await asyncio.sleep(self._seconds)
            cpu = meter.percent()
        states = await self._cluster.describe(TOPIC)
        memory = {name: rss_bytes(pid) / MIB for name, pid in self._cluster.members.items()}
        return {
            **figures,
            **load.figures(since=begun),
            "moved": float(sum(state.leader != state.replicas[0] for state in states)),
            "client_percent": cpu["client"],
            "broker_percent": max(cpu[broker_name(broker)] for broker in BROKERS),
            "broker_mib": max(memory[broker_name(broker)] for broker in BROKERS),
            "controller_mib": memory[CONTROLLER],
        }

    async def _idle(self) -> Figures:
        """Measure idle CPU in percent of a core, while the producer stays connected."""
        await asyncio.sleep(SETTLE_S)
        meter = CpuMeter(self._cluster.members)
        await asyncio.sleep(self._idle_s)
        used = meter.percent()
        return {
            "broker_percent": max(used[broker_name(broker)] for broker in BROKERS),
            "controller_percent": used[CONTROLLER],
        }

    async def _fail_over(self) -> Figures:
        """Kill a broker under load. Both waits are those of records that were due after the kill."""
        states = await self._cluster.describe(TOPIC)
        led = {number for number, state in enumerate(states) if state.leader == VICTIM}
        others = set(range(self._partitions)) - led
        async with self._timed() as figures, Load(self._send, TOPIC, self._partitions, PER_SECOND) as load:
            await asyncio.sleep(1.0)
            killed = time.perf_counter()
            self._cluster.kill(VICTIM)
            await self._until(lambda states: all(state.leader not in (VICTIM, -1) for state in states))
            seconds = time.perf_counter() - killed
            await asyncio.sleep(max(1.0, self._partitions / PER_SECOND))
        return {
            **figures,
            "seconds": seconds,
            "led_wait_s": load.longest_wait(led, killed),
            "others_wait_s": load.longest_wait(others, killed),
            "failed_records": len(load.failed),
        }

    async def _restart(self) -> Figures:
        """Restart the killed broker, until every replica is in sync."""
        async with self._timed() as figures:
            self._cluster.launch(VICTIM)
            await self._until(in_sync)
        return figures

    async def _orderly(self) -> Figures:
        """Restart another broker, from SIGTERM until every replica is in sync again."""
        async with self._timed() as figures:
            started = time.perf_counter()
            try:
                await self._cluster.stop(ORDERLY)
            except asyncio.CancelledError:  # too late; it must run again, otherwise the deletion would not end
                self._cluster.kill(ORDERLY)
                self._cluster.launch(ORDERLY)
                raise
            figures["stopped_s"] = time.perf_counter() - started
            self._cluster.launch(ORDERLY)
            await self._until(in_sync)
        return figures

    async def _delete(self) -> Figures:
        """Delete the topic, until no broker has a directory under its name."""
        async with self._beside_a_producer() as figures:
            await self._cluster.delete(TOPIC)
            await self._until_directories(lambda names: not any(map(_is_replica, names)))
        return figures

    async def _removed(self) -> Figures:
        """Wait until deleted files go, a minute after the deletion by `file.delete.delay.ms`; measure until all have
        gone."""
        await self._until_directories(lambda names: sum(map(_is_left, names)) < self._partitions)
        async with self._beside_a_producer() as figures:
            await self._until_directories(lambda names: not any(map(_is_left, names)))
        return figures

    # -- shared by phases

    @asynccontextmanager
    async def _timed(self) -> AsyncIterator[Figures]:
        """Measure the time of a block."""
        figures: Figures = {}
        started = time.perf_counter()
        yield figures
        figures["seconds"] = time.perf_counter() - started

    @asynccontextmanager
    async def _beside_a_producer(self) -> AsyncIterator[Figures]:
        """Measure the time of a block, and the waits of the steady producer's records meanwhile."""
        await self._steady.order("go")
        try:
            async with self._timed() as figures:
                yield figures
            await asyncio.sleep(AFTER_S)
        finally:
            steady = await self._steady.order("tell")
        figures |= {f"steady_{name}": figure for name, figure in steady.items()}

    async def _until(self, condition: Callable[[list[DescribedPartition]], bool]) -> None:
        """Wait until the topic's partitions, as a broker knows them, meet the condition."""

        async def ask() -> bool:
            try:
                states = await self._cluster.describe(TOPIC)
            except (ReplogError, KafkaError, OSError):
                return False  # the broker that was asked is down
            return bool(states) and condition(states)

        await self._poll(ask, PAUSE)

    async def _until_directories(self, condition: Callable[[list[str]], bool]) -> None:
        """Wait until the directories of every broker meet the condition."""

        async def look() -> bool:
            return all(condition(os.listdir(self._cluster.data_directory(broker))) for broker in BROKERS)

        await self._poll(look, PAUSE_BESIDE)

    async def _poll(self, ask: Callable[[], Awaitable[bool]], pause: float) -> None:
        """Ask until True, with pauses much longer than an answer takes, since asking takes CPU."""
        while True:
            asked = time.perf_counter()
            if await ask():
                return
            await asyncio.sleep(max(POLL_S, pause * (time.perf_counter() - asked)))


def _is_left(name: str) -> bool:
    """Return True if it names a replica, or the remains of one."""
    return name.startswith(f"{TOPIC}-")


def _is_replica(name: str) -> bool:
    return _is_left(name) and name[len(TOPIC) + 1 :].isdecimal()
