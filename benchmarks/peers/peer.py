"""The interface of a system in a benchmark: it runs on fresh data, and its client produces and consumes as ordered."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.beside import Beside, Figures

BROKERS = (1, 2, 3)
CONTROLLER, CLIENT = "controller", "client"
PARTITIONS = 6
POLL_S = 0.02
CLOSE_S = 10.0  # a producer's time limit for its last flush

Send = Callable[[str, int, bytes], Awaitable[Awaitable[object]]]
"""After `outcome = await send(topic, partition, value)` the producer has it, after `await outcome` all replicas do."""


def broker_name(broker: int) -> str:
    return f"broker-{broker}"


class CannotRun(Exception):
    """The system cannot run here; the message says why and what would help."""


class Settings(NamedTuple):
    """The settings of a producer. None: the system's default, or no such setting."""

    batch_bytes: int | None = None
    linger_ms: int | None = None


class Peer(Protocol):
    """One system, whose data is in the directory `home`. Its construction or its start may raise CannotRun."""

    name: str
    defaults: Settings  # its producer's
    warm_up_mb: int  # MB in records of 1 KiB until it has its full speed

    def __init__(self, home: Path) -> None: ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run the system and its client."""

    @property
    def pids(self) -> Mapping[str, int]:
        """The ids of all its processes while it runs; `CLIENT` is the one that produces and consumes."""

    async def make(self, topic: str) -> None:
        """Create a topic with `PARTITIONS`, and wait until it can be written."""

    async def end(self, topic: str) -> None:
        """Release a topic that is not needed any more."""

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        """Return the seconds until all records are acknowledged. The producer chooses their partitions."""

    async def pace(
        self, topic: str, record_bytes: int, records: int, per_second: float, warm_up: int, settings: Settings
    ) -> Sequence[float]:
        """Return the seconds from when each record was due to its acknowledgement, without the first `warm_up`. The
        n-th is due at n / `per_second`, whatever happens to others, in partition n % `PARTITIONS`."""

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        """Return the seconds until all records are read, from the beginning."""


class DescribedPartition(NamedTuple):
    leader: int  # -1: none
    replicas: tuple[int, ...]  # the preferred leader is the first
    isr: frozenset[int]


class Cluster(Peer, ABC):
    """A peer of a controller and `BROKERS`, each a process, with default settings. Its client is a process that takes
    orders (`benchmarks.beside`), which have the names of methods here.

    Between `start` and `close` it runs without a client. Calls have no deadlines, but a measurement has.
    """

    client: Beside

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

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The brokers' addresses, with commas between them."""

    @abstractmethod
    def data_directory(self, broker: int) -> Path:
        """Return the directory that has the broker's partitions."""

    @abstractmethod
    async def create(self, topic: str, partitions: int) -> None:
        """Create a topic with three replicas a partition, and wait until the cluster says that it is created."""

    @abstractmethod
    async def delete(self, topic: str) -> None: ...

    @abstractmethod
    async def describe(self, topic: str) -> list[DescribedPartition]:
        """Return a topic's partitions as a running broker knows them; empty if it does not know the topic."""

    @abstractmethod
    def producer(self) -> AbstractAsyncContextManager[Send]:
        """Run a producer in this process."""

    @abstractmethod
    def kill(self, broker: int) -> None:
        """Send SIGKILL."""

    @abstractmethod
    async def stop(self, broker: int) -> None:
        """Send SIGTERM, and wait until the process has ended."""

    @abstractmethod
    def launch(self, broker: int) -> None:
        """Start a broker on its own data, without waiting for it."""

    # -- a peer

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            await self.start()
            async with Beside.program(f"{self.name}'s client", self.client_command()) as self.client:
                yield
        finally:
            await self.close()

    @property
    def pids(self) -> Mapping[str, int]:
        return {**self.members, CLIENT: self.client.pid}

    async def make(self, topic: str) -> None:
        await self.create(topic, PARTITIONS)
        while len(described := await self.describe(topic)) < PARTITIONS or not in_sync(described):
            await asyncio.sleep(POLL_S)

    async def end(self, topic: str) -> None:
        """Keep the topic: its files would be removed a minute after a deletion, while other rows are measured."""

    async def order(self, name: str, topic: str, **arguments: object) -> Figures:
        return await self.client.order(name, topic=topic, partitions=PARTITIONS, **arguments)

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        options = self.options(settings)
        answer = await self.order("produce", topic, record_bytes=record_bytes, records=records, settings=options)
        return float(answer["seconds"])

    async def pace(
        self, topic: str, record_bytes: int, records: int, per_second: float, warm_up: int, settings: Settings
    ) -> Sequence[float]:
        pace = {"per_second": per_second, "warm_up": warm_up, "settings": self.options(settings)}
        answer = await self.order("pace", topic, record_bytes=record_bytes, records=records, **pace)
        return [wait / 1e6 for wait in answer["waits_us"]]

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        return float((await self.order("consume", topic, record_bytes=record_bytes, records=records))["seconds"])


def in_sync(partitions: Iterable[DescribedPartition]) -> bool:
    """Return True if all replicas of all partitions are in sync, and each partition has a leader."""
    return all(state.leader in state.isr and state.isr == set(state.replicas) for state in partitions)


async def close_in_time(close: Callable[[], Awaitable[object]]) -> None:
    """Close a producer, and give up after `CLOSE_S` if the cluster does not answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await close()
