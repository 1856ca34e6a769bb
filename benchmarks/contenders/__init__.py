"""Clusters that are measured beside each other: a controller and brokers 1 to 3, each with its default settings.

| File | What |
|---|---|
| `replog.py` | ours |
| `kafka.py` | Apache Kafka 4.1 in KRaft mode |
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

BROKERS = (1, 2, 3)
CONTROLLER = "controller"
POLL_S = 0.02
CLOSE_S = 10.0  # how long a producer may flush

Send = Callable[[str, int, bytes], Awaitable[Awaitable[object]]]
"""`outcome = await send(topic, partition, value)`: an idempotent producer has it; `await outcome`: all replicas do."""


async def close_in_time(close: Callable[[], Awaitable[object]]) -> None:
    """A producer, also of a cluster that does not answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await close()


def broker_name(broker: int) -> str:
    return f"broker-{broker}"


class DescribedPartition(NamedTuple):
    leader: int  # -1: none
    replicas: tuple[int, ...]  # the one that is to lead first
    isr: frozenset[int]


class Contender(Protocol):
    """Every process is its own; `close` leaves nothing running. Calls have no deadlines: the measurement has."""

    name: str

    async def start(self) -> None:
        """Returns once all brokers serve and know each other."""

    async def close(self) -> None:
        """SIGKILL to all that run; without a word if `start` failed."""

    @property
    def pids(self) -> Mapping[str, int]:
        """Of what runs, by `CONTROLLER` and `broker_name`."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """By the same names, running or not."""

    @property
    def bootstrap(self) -> str:
        """Of the brokers, with commas between them."""

    def data_directory(self, broker: int) -> Path:
        """Where its partitions' directories are."""

    async def create(self, topic: str, partitions: int) -> None:
        """With three replicas each. Returns when the cluster says that it is made."""

    async def delete(self, topic: str) -> None: ...

    async def describe(self, topic: str) -> list[DescribedPartition]:
        """As a running broker knows it; empty if it knows no such topic."""

    def producer(self) -> AbstractAsyncContextManager[Send]: ...

    def kill(self, broker: int) -> None:
        """SIGKILL."""

    async def stop(self, broker: int) -> None:
        """SIGTERM; returns when the process is gone."""

    def launch(self, broker: int) -> None:
        """Start it on its own data; returns at once."""


def in_sync(partitions: Iterable[DescribedPartition]) -> bool:
    """All replicas of all of them, and each has a leader."""
    return all(state.leader in state.isr and state.isr == set(state.replicas) for state in partitions)


async def create_in_sync(contender: Contender, topic: str, partitions: int) -> None:
    """Returns once all replicas are in sync."""
    await contender.create(topic, partitions)
    while len(described := await contender.describe(topic)) < partitions or not in_sync(described):
        await asyncio.sleep(POLL_S)
