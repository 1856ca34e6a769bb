"""Runs hours of mixed load on a local cluster, with kills: memory must not grow.

Two clients of `replog.chaos` produce, consume, ask for offsets, and make and delete topics. Reads of broker 1 that wait
are cancelled, and connections to it are made and left. Brokers 2 and 3 are killed in turn and started again; broker 1
and the controller are not, and their memory counts, like that of the clients. The first tenth of the time is a warm-up.
The median of the second half of the rest may be above that of the first half by `PER_HOUR` of it for each hour between
their middles, and by `NOISE_MIB`. It exits with 1 if memory grew by more or something broke; SIGINT and SIGTERM end it
earlier. What clients see is `make chaos`' to check. Run it with `make soak`.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.attackers import BULK, connect_and_leave, parked_fetches
from benchmarks.beside import Figures
from benchmarks.harness import Note, benchmark_parser, homes, parsed, publish, rss_bytes, table
from replog.chaos.client import ASSIGNED, PARTITIONS, TOPICS
from replog.client import Admin
from replog.errors import ReplogError
from replog.local_cluster.local_cluster import LocalCluster

PER_HOUR, NOISE_MIB = 0.05, 2.0
WARM_UP = 0.1
SAMPLE_S, TELL_S, KILL_S, PASS_S = 10.0, 60.0, 180.0, 0.2
DOWN_S = (0.5, 15.0)  # the time until a killed broker starts again
LAST_S = 180.0  # the time limit for the last records
VICTIMS = (2, 3)
CLIENTS = ("client-1", "client-2")
CLIENT_PACE_S = 0.05  # the time between two records for the same partition
CONNECTIONS, READS, READ_S = 3, 5, 0.03
JUDGED = ("controller", "broker-1", *CLIENTS)
TOPIC = {"retention.bytes": str(16 << 20), "segment.bytes": str(2 << 20)}  # otherwise disks would fill up
BROKERS = {"log.retention.check.interval.ms": "5000"}


class Memory(NamedTuple):
    at_s: float
    resident_mib: float


class Growth(NamedTuple):
    """The medians of two halves of the samples after the warm-up."""

    before_mib: float
    after_mib: float
    per_hour_mib: float
    allowed_mib: float  # the most that the second half may be above the first

    @property
    def is_flat(self) -> bool:
        return self.after_mib - self.before_mib <= self.allowed_mib


def growth(samples: Sequence[Memory], seconds: float) -> Growth:
    """Return the growth of resident memory in a run of `seconds`. Raises ValueError if a half has no sample."""
    begin, middle = seconds * WARM_UP, seconds * (1 + WARM_UP) / 2
    first = [sample.resident_mib for sample in samples if begin <= sample.at_s < middle]
    second = [sample.resident_mib for sample in samples if middle <= sample.at_s]
    if not first or not second:
        raise ValueError(f"{len(samples)} samples in {seconds:g} s: too few to compare; let it run for longer")
    before, after, hours = median(first), median(second), (middle - begin) / 3600
    return Growth(before, after, (after - before) / hours, before * PER_HOUR * hours + NOISE_MIB)


class Soak:
    def __init__(self, cluster: LocalCluster, seconds: float, seed: int, note: Note) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._rng = random.Random(seed)
        self._note = note
        self._stopped = asyncio.Event()
        self._clients: dict[str, Process] = {}
        self._samples = defaultdict[str, list[Memory]](list)
        self._kills = self._passed = 0
        self._begun: float

    async def run(self) -> Figures:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        async with Admin(self._cluster.bootstrap) as admin:
            for topic in TOPICS:
                await admin.create_topic(topic, PARTITIONS, replication_factor=3, configs=TOPIC)
            await admin.create_topic(BULK, assignment=[(1, 2, 3)])  # led by the broker that is not killed
            try:
                for name in CLIENTS:
                    command = ["replog.chaos.client", name, self._cluster.bootstrap, os.devnull, str(CLIENT_PACE_S)]
                    self._clients[name] = await asyncio.create_subprocess_exec(
                        sys.executable, "-P", "-m", *command, stdin=DEVNULL, start_new_session=True
                    )
                self._begun = time.monotonic()
                works = (self._sample, self._tell, self._kill, self._pass_by)
                tasks = [asyncio.create_task(work()) for work in works]
                await asyncio.wait(tasks, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
                ran_s = self._now()  # memory was sampled until now; a broker may still be starting
                self._stopped.set()
                broken = [repr(why) for why in await asyncio.gather(*tasks, return_exceptions=True) if why is not None]
                broken += await self._stop_clients()
            finally:
                for client in self._clients.values():
                    with contextlib.suppress(ProcessLookupError):
                        client.kill()
            ends = await admin.list_offsets(dict.fromkeys(ASSIGNED, -1))
        return {
            "seconds": ran_s,
            "broken": broken,
            "kills": self._kills,
            "passed": self._passed,
            "records": sum(end.offset for end in ends.values() if end is not None),
            "growth": {name: growth(self._samples[name], ran_s)._asdict() for name in JUDGED},
        }

    async def _stop_clients(self) -> list[str]:
        """Let the clients finish what they sent; return those that did not."""
        for client in self._clients.values():
            with contextlib.suppress(ProcessLookupError):
                client.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await asyncio.gather(*(client.wait() for client in self._clients.values()))
        statuses = {name: client.returncode for name, client in self._clients.items()}
        return [f"{name} ended with status {status}" for name, status in statuses.items() if status != 0]

    def _now(self) -> float:
        return time.monotonic() - self._begun

    async def _sample(self) -> None:
        while not await self._pause(SAMPLE_S):
            pids = {member.name: member.pid for member in self._cluster.state.members}
            pids |= {name: client.pid for name, client in self._clients.items()}
            for name in JUDGED:
                pid = pids[name]
                assert pid is not None, f"{name} does not run"
                self._samples[name].append(Memory(self._now(), rss_bytes(pid) / (1 << 20)))

    async def _tell(self) -> None:
        while not await self._pause(TELL_S):
            latest = {name: round(samples[-1].resident_mib) for name, samples in self._samples.items()}
            self._note(f"{self._now():.0f} s: {self._kills} kills, MiB {latest}")

    async def _kill(self) -> None:
        while not await self._pause(min(KILL_S, self._seconds / 4)):
            victim = VICTIMS[self._kills % len(VICTIMS)]
            await asyncio.to_thread(self._cluster.kill, victim)
            self._kills += 1
            await asyncio.sleep(self._rng.uniform(*DOWN_S))
            await asyncio.to_thread(self._cluster.start, victim)
            await asyncio.to_thread(self._cluster.wait_for_full_isr)

    async def _pass_by(self) -> None:
        address = self._cluster.state.broker(1).address
        while not await self._pause(PASS_S):
            with contextlib.suppress(ReplogError):
                async with parked_fetches(address, READS):
                    await asyncio.sleep(READ_S)
            await connect_and_leave(address, CONNECTIONS)
            self._passed += 1

    async def _pause(self, seconds: float) -> bool:
        """Sleep, and return True if the run is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        return self._stopped.is_set()


def faults(figures: Mapping[str, Any]) -> list[str]:
    """Return the checks that failed, in words."""
    grown = ((name, Growth(**fields)) for name, fields in figures["growth"].items())
    return list(figures["broken"]) + [
        f"{name} grew from {its.before_mib:.1f} to {its.after_mib:.1f} MiB, by more than {its.allowed_mib:.1f}"
        for name, its in grown
        if not its.is_flat
    ]


def shown(figures: Mapping[str, Any]) -> str:
    head = ["process", "first half, MiB", "second half, MiB", "MiB an hour", "allowed, MiB"]
    rows = [[name, *(f"{figure:.1f}" for figure in fields.values())] for name, fields in figures["growth"].items()]
    return (
        f"{table(head, rows)}\n\n{figures['seconds']:.0f} s, {figures['kills']} kills, {figures['records']:,} records, "
        f"{figures['passed']:,} times reads that were cancelled. Found: {'; '.join(faults(figures)) or 'nothing'}."
    )


def run(seconds: float, seed: int, note: Note) -> Figures:
    with homes() as home, LocalCluster(home, 3, BROKERS) as cluster:
        return asyncio.run(Soak(cluster, seconds, seed, note).run())


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=7200.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of kills")
    options, note = parsed(parser)
    figures = run(options.seconds, options.seed, note)
    publish("soak", shown(figures), {"seed": options.seed, **figures}, options)
    return 1 if faults(figures) else 0


if __name__ == "__main__":
    sys.exit(main())
