"""What a system does for a benchmark: it runs on fresh data, and its client produces and consumes as ordered."""

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
CLOSE_S = 10.0  # how long a producer may flush

Send = Callable[[str, int, bytes], Awaitable[Awaitable[object]]]
"""`outcome = await send(topic, partition, value)`: an idempotent producer has it; `await outcome`: all replicas do."""


def broker_name(broker: int) -> str:
    return f"broker-{broker}"


class CannotRun(Exception):
    """The system cannot be had here; the message says why and what would help."""


class Settings(NamedTuple):
    """Of a producer. None: the system's default, or that it has no such setting."""

    batch_bytes: int | None = None
    linger_ms: int | None = None


class Peer(Protocol):
    """One system, with its data in a directory that it is made with. Raises CannotRun then, or when it starts."""

    name: str
    defaults: Settings  # of its producer
    warm_up_mb: int  # of records of 1 KiB, until it is as fast as it gets

    def __init__(self, home: Path) -> None: ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """The system, and its client."""

    @property
    def pids(self) -> Mapping[str, int]:
        """Of all its processes while it runs; `CLIENT` is the one that produces and consumes."""

    async def make(self, topic: str) -> None:
        """With `PARTITIONS`. Returns once it can be written."""

    async def end(self, topic: str) -> None:
        """Nobody needs it any more."""

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        """Seconds from the first record until all are acknowledged. The producer chooses their partitions."""

    async def pace(
        self, topic: str, record_bytes: int, records: int, per_second: float, warm_up: int, settings: Settings
    ) -> Sequence[float]:
        """Seconds that each record waited for its acknowledgement, counted from when it was due: the n-th at n /
        `per_second`, whatever happens to others, in partition n % `PARTITIONS`. The first `warm_up` are left out.
        """

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        """Seconds until all have been read, from the beginning."""


class DescribedPartition(NamedTuple):
    leader: int  # -1: none
    replicas: tuple[int, ...]  # the one that is to lead first
    isr: frozenset[int]


class Cluster(Peer, ABC):
    """A peer of a controller and `BROKERS`, each a process of its own, with default settings. Its client is a process
    that takes its orders by their names here (`benchmarks.beside`).

    It also runs without that: after `start`, until `close`. Calls have no deadlines: the measurement has.
    """

    client: Beside

    @abstractmethod
    async def start(self) -> None:
        """Returns once all brokers serve and know each other."""

    @abstractmethod
    async def close(self) -> None:
        """SIGKILL to all that run; without a word if `start` failed."""

    @abstractmethod
    def client_command(self) -> Sequence[str]: ...

    @abstractmethod
    def options(self, settings: Settings) -> Mapping[str, object]:
        """As the client takes them."""

    @property
    @abstractmethod
    def members(self) -> Mapping[str, int]:
        """The process ids of what runs, by `CONTROLLER` and `broker_name`."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Of the brokers, with commas between them."""

    @abstractmethod
    def data_directory(self, broker: int) -> Path:
        """Where its partitions' directories are."""

    @abstractmethod
    async def create(self, topic: str, partitions: int) -> None:
        """With three replicas each. Returns when the cluster says that it is made."""

    @abstractmethod
    async def delete(self, topic: str) -> None: ...

    @abstractmethod
    async def describe(self, topic: str) -> list[DescribedPartition]:
        """As a running broker knows it; empty if it knows no such topic."""

    @abstractmethod
    def producer(self) -> AbstractAsyncContextManager[Send]:
        """In this process."""

    @abstractmethod
    def kill(self, broker: int) -> None:
        """SIGKILL."""

    @abstractmethod
    async def stop(self, broker: int) -> None:
        """SIGTERM; returns when the process is gone."""

    @abstractmethod
    def launch(self, broker: int) -> None:
        """Start it on its own data; returns at once."""

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
        """It stays: its files would be removed a minute after a deletion, while other rows are measured."""

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
    """All replicas of all of them, and each has a leader."""
    return all(state.leader in state.isr and state.isr == set(state.replicas) for state in partitions)


async def close_in_time(close: Callable[[], Awaitable[object]]) -> None:
    """A producer, also of a cluster that does not answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await close()
