"""A cluster in a benchmark: it runs on fresh data, and its client produces and consumes as ordered."""

import asyncio
import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Beside, Figures, Latency

BROKERS = (1, 2, 3)
CONTROLLER, CLIENT = "controller", "client"
PARTITIONS = 6
POLL_S = 0.02
FAILED = -1  # instead of the wait of a record that failed
RECORD_BYTES = 1024


def broker_name(broker: int) -> str:
    return f"broker-{broker}"


class CannotRun(Exception):
    """The system cannot run here; the message says why and what would help."""


class Settings(NamedTuple):
    """The settings of a producer. None: the system's default, or no such setting."""

    batch_bytes: int | None = None
    linger_ms: int | None = None


class DescribedPartition(NamedTuple):
    leader: int  # -1: none
    replicas: tuple[int, ...]  # the preferred leader is the first
    isr: frozenset[int]


class ClusterPeer(ABC):
    """A controller and `BROKERS`, each a process, with default settings and data in the directory `home`. Its client is
    a process that takes orders (`Beside`), which have the names of methods here.

    Its construction or its start may raise CannotRun. Between `start` and `close` it runs without a client. Calls have
    no deadlines, but a measurement has.
    """

    name: str
    defaults: Settings  # its producer's
    warm_up_mb: int  # MB in records of 1 KiB until it has its full speed

    @abstractmethod
    def __init__(self, home: Path) -> None: ...

    @abstractmethod
    async def start(self) -> None:
        """Start the cluster, and wait until all brokers serve and know each other."""

    @abstractmethod
    async def close(self) -> None:
        """Send SIGKILL to all that run; raise nothing if `start` failed."""

    @abstractmethod
    def client_command(self) -> Sequence[str]: ...

    @abstractmethod
    def options(self, settings: Settings) -> Mapping[str, object]:
        """Return settings in the form that the client takes."""

    @property
    @abstractmethod
    def members(self) -> Mapping[str, int]:
        """The ids of running processes, by `CONTROLLER` and `broker_name`."""

    @abstractmethod
    async def create(self, topic: str, partitions: int) -> None:
        """Create a topic with three replicas a partition, and wait until the cluster says that it is created."""

    @abstractmethod
    async def describe(self, topic: str) -> list[DescribedPartition]:
        """Return a topic's partitions as a running broker knows them; empty if it does not know the topic."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the system and its client."""
        try:
            await self.start()
            async with self.beside() as self.client:
                yield
        finally:
            await self.close()

    def beside(self) -> AbstractAsyncContextManager[Beside]:
        """Run one client more."""
        return Beside.program(f"{self.name}'s client", self.client_command())

    @property
    def pids(self) -> Mapping[str, int]:
        """The ids of all its processes while it runs; `CLIENT` is the one that produces and consumes."""
        return {**self.members, CLIENT: self.client.pid}

    async def make(self, topic: str) -> None:
        """Create a topic with `PARTITIONS`, and wait until it can be written."""
        await self.create(topic, PARTITIONS)
        while len(described := await self.describe(topic)) < PARTITIONS or not in_sync(described):
            await asyncio.sleep(POLL_S)

    async def end(self, topic: str) -> None:  # noqa: B027 (there is nothing to do)
        """Keep it: its files would be removed a minute after a deletion, while other rows are measured."""

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        """Return the seconds until all records are acknowledged. The producer chooses their partitions."""
        work = {"record_bytes": record_bytes, "records": records, "settings": self.options(settings)}
        return float((await self.client.order("produce", topic=topic, **work))["seconds"])

    async def pace(
        self, topic: str, record_bytes: int, records: int, per_second: float, settings: Settings
    ) -> Sequence[float]:
        """Return the seconds from when each record was due to its acknowledgement. The n-th is due at n / `per_second`,
        whatever happens to others, in partition n % `PARTITIONS`."""
        work = {"record_bytes": record_bytes, "records": records, "settings": self.options(settings)}
        answer = await self.client.order("pace", topics={topic: PARTITIONS}, per_second=per_second, **work)
        return answered(answer)

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        """Return the seconds until all records are read, from the beginning."""
        answer = await self.client.order("consume", topic=topic, partitions=PARTITIONS, records=records)
        return float(answer["seconds"])


def answered(told: Figures) -> list[float]:
    """Return the seconds that each record of a pace waited. Raises ValueError if one has failed."""
    if failed := told["waits_us"].count(FAILED):
        raise ValueError(f"{failed} of {len(told['waits_us'])} records failed")
    return [wait / 1e6 for wait in told["waits_us"]]


def in_sync(partitions: Iterable[DescribedPartition]) -> bool:
    """Return True if all replicas of all partitions are in sync, and each partition has a leader."""
    return all(state.leader in state.isr and state.isr == set(state.replicas) for state in partitions)


class Load:
    """The waits of its records are known once it has ended."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._first = time.perf_counter()  # when the first record was due
        self.waits_us: list[int] = []

    def waits(self, since: float = 0.0, until: float = math.inf) -> dict[int, float]:
        """Return the seconds that records due from `since` on and before `until` waited, by their numbers from 0."""
        dues = ((number, self._first + number / self._per_second) for number in range(len(self.waits_us)))
        among = [number for number, due in dues if since <= due < until and self.waits_us[number] != FAILED]
        return {number: self.waits_us[number] / 1e6 for number in among}

    def figures(self, since: float = 0.0, until: float = math.inf) -> Figures:
        """Return the latency of these records, and the number of failed records of all."""
        latency = Latency.of(list(self.waits(since, until).values()))
        return {**latency._asdict(), "failed_records": self.waits_us.count(FAILED)}


@asynccontextmanager
async def load(cluster: ClusterPeer, topics: Mapping[str, int], per_second: float) -> AsyncIterator[Load]:
    """Send to the partitions of topics in turn from a process of its own, until the block ends; then wait for answers.

    A record that cannot be sent when it is due, because an earlier one delays the sender, is sent late and counts from
    when it was due. So a pause of the cluster shows in every record that was due in it.
    """
    settings = cluster.options(cluster.defaults)
    async with cluster.beside() as client:
        await client.order("go", topics=topics, record_bytes=RECORD_BYTES, per_second=per_second, settings=settings)
        running = Load(per_second)
        yield running
        running.waits_us = (await client.order("tell"))["waits_us"]
