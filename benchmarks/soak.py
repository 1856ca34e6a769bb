"""Runs hours of mixed load on a local cluster, with kills: memory must not grow, and every record must come once.

Brokers 2 and 3 are killed in turn and started again; broker 1 and the controller are not, and their memory counts. The
first tenth of the time is a warm-up. The median of the second half of the rest may be above that of the first half by
`PER_HOUR` of it for each hour between their middles, and by `NOISE_MIB`. It exits with 1 if memory grew by more, a
record was lost or came twice, or something broke; SIGINT and SIGTERM end it earlier. Run it with `make soak`.
"""

import asyncio
import contextlib
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from statistics import median
from typing import Any, NamedTuple

from benchmarks.beside import Beside, Figures
from benchmarks.harness import Note, benchmark_parser, homes, parsed, publish, table
from benchmarks.measure import rss_bytes
from benchmarks.soak_clients import CLIENTS, PARTITIONS, QUIET, STEADY
from replog.client import Admin
from replog.local_cluster.local_cluster import LocalCluster

PER_HOUR, NOISE_MIB = 0.05, 2.0
WARM_UP = 0.1
SAMPLE_S, TELL_S, KILL_S = 10.0, 60.0, 180.0
DOWN_S = (0.5, 15.0)  # the time until a killed broker starts again
LAST_S = 120.0  # the time limit for the last records
VICTIMS = (2, 3)
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
        self._seed = seed
        self._note = note
        self._stopped = asyncio.Event()
        self._clients: dict[str, Beside] = {}
        self._samples = defaultdict[str, list[Memory]](list)
        self._kills = 0
        self._begun: float

    async def run(self) -> Figures:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        async with Admin(self._cluster.bootstrap) as admin:
            await admin.create_topic(STEADY, PARTITIONS, replication_factor=3, configs=TOPIC)
            await admin.create_topic(QUIET, assignment=[(1, 2, 3)])  # led by the broker that is not killed
        async with AsyncExitStack() as stack:
            for name in CLIENTS:
                running = Beside.running("benchmarks.soak_clients", name, self._cluster.bootstrap, str(self._seed))
                self._clients[name] = await stack.enter_async_context(running)
            self._begun = time.monotonic()
            tasks = [asyncio.create_task(work()) for work in (self._sample, self._tell, self._kill)]
            await asyncio.wait(tasks, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            ran_s = self._now()  # memory was sampled until now; a broker may still be starting
            self._stopped.set()
            broken = [repr(why) for why in await asyncio.gather(*tasks, return_exceptions=True) if why is not None]
            told = await self._drain()
        return {
            "seconds": ran_s,
            "seed": self._seed,
            "broken": broken,
            "kills": self._kills,
            "told": told,
            "growth": {name: growth(self._samples[name], ran_s)._asdict() for name in JUDGED},
        }

    async def _drain(self) -> dict[str, Figures]:
        """Wait until every record that was sent is acknowledged and read, or `LAST_S` have passed; return reports."""
        sent: list[int] = (await self._clients["writer"].order("end"))["sent"]
        deadline = time.monotonic() + LAST_S
        while True:
            told = await self._told()
            done = told["writer"]["acknowledged"] == sum(sent) and told["reader"]["read"] == sent
            if done or time.monotonic() > deadline:
                return told | {"writer": told["writer"] | {"sent": sent}}
            await asyncio.sleep(1)

    async def _told(self) -> dict[str, Figures]:
        return {name: await client.order("tell") for name, client in self._clients.items()}

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
            self._note(f"{self._now():.0f} s: {self._kills} kills, MiB {latest}, {await self._told()}")

    async def _kill(self) -> None:
        rng = random.Random(self._seed)
        while not await self._pause(min(KILL_S, self._seconds / 4)):
            victim = VICTIMS[self._kills % len(VICTIMS)]
            await asyncio.to_thread(self._cluster.kill, victim)
            self._kills += 1
            await asyncio.sleep(rng.uniform(*DOWN_S))
            await asyncio.to_thread(self._cluster.start, victim)
            await asyncio.to_thread(self._cluster.wait_for_full_isr, STEADY)

    async def _pause(self, seconds: float) -> bool:
        """Sleep, and return True if the run is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        return self._stopped.is_set()


def faults(figures: Mapping[str, Any]) -> list[str]:
    """Return the checks that failed, in words."""
    writer, reader = figures["told"]["writer"], figures["told"]["reader"]
    wrong = list(figures["broken"])
    wrong += [
        f"{name} grew from {grown.before_mib:.1f} to {grown.after_mib:.1f} MiB, by more than {grown.allowed_mib:.1f}"
        for name, grown in ((name, Growth(**fields)) for name, fields in figures["growth"].items())
        if not grown.is_flat
    ]
    if writer["acknowledged"] != sum(writer["sent"]):
        wrong.append(f"{sum(writer['sent'])} records sent, {writer['acknowledged']} acknowledged: {writer['errors']}")
    if reader["wrong"] or reader["read"] != writer["sent"]:
        wrong.append(f"sent {writer['sent']}, read {reader['read']}, out of turn {reader['examples']}")
    return wrong


def shown(figures: Mapping[str, Any]) -> str:
    head = ["process", "first half, MiB", "second half, MiB", "MiB an hour", "allowed, MiB"]
    rows = [[name, *(f"{figure:.1f}" for figure in fields.values())] for name, fields in figures["growth"].items()]
    told = figures["told"]
    passed = ", ".join(f"{name} {count:,}" for name, count in sorted(told["passer-by"].items()))
    return (
        f"{table(head, rows)}\n\n{figures['seconds']:.0f} s, seed {figures['seed']}, {figures['kills']} kills: "
        f"{told['writer']['acknowledged']:,} records acknowledged and {sum(told['reader']['read']):,} read, "
        f"{told['writer']['failed']} failed and {told['reader']['wrong']} out of turn; the longest waited "
        f"{told['writer']['longest_s']:.1f} s; {passed}. Found: {'; '.join(faults(figures)) or 'nothing'}."
    )


def run(seconds: float, seed: int, note: Note) -> Figures:
    with homes() as home, LocalCluster(home, 3, BROKERS) as cluster:
        return asyncio.run(Soak(cluster, seconds, seed, note).run())


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=7200.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of kills and clients")
    options, note = parsed(parser)
    figures = run(options.seconds, options.seed, note)
    publish("soak", shown(figures), figures, options)
    return 1 if faults(figures) else 0


if __name__ == "__main__":
    sys.exit(main())
