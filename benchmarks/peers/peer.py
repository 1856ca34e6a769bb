"""What a system does for the benchmark: it runs on fresh data, and its client produces and consumes as ordered."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

PARTITIONS = 6
CLIENT = "client"


class CannotRun(Exception):
    """The system cannot be had here; the message says why and what would help."""


class Settings(NamedTuple):
    """Of a producer. None: the system's default, or that it has no such setting."""

    batch_bytes: int | None = None
    linger_ms: int | None = None


class Peer(Protocol):
    name: str
    defaults: Settings  # of its producer
    warm_up_mb: int  # of records of 1 KiB, until it is as fast as it gets

    def running(self, home: Path) -> AbstractAsyncContextManager[None]:
        """The system with its data in `home`, and its client. Raises CannotRun."""

    @property
    def pids(self) -> Mapping[str, int]:
        """Of all its processes while it runs; `CLIENT` is the one that produces and consumes."""

    async def create(self, topic: str) -> None:
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
