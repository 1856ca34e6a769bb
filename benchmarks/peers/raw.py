"""Raw sockets: messages of 1 MiB, or of a record, through `benchmarks/raw_pipeline.py`, with this process as client."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from benchmarks.peers.peer import CLIENT, Settings
from benchmarks.raw_pipeline import raw_pipeline

IN_FLIGHT = 16
_WARM_UP_MESSAGE_BYTES, _WARM_UP_MESSAGES = 1 << 20, 32


class RawPeer:
    """A `benchmarks.peers.peer.Peer` with one log, one message a batch, and no consumer."""

    name = "raw sockets"
    defaults = Settings()
    warm_up_mb = 1  # each topic's processes are warmed up by themselves

    def __init__(self, home: Path) -> None:
        self._home = home

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with contextlib.ExitStack() as self._topic:
            yield

    @property
    def pids(self) -> Mapping[str, int]:
        return {**self._pipeline.pids, CLIENT: os.getpid()}

    async def make(self, topic: str) -> None:
        """Start processes for the topic, with files of their own, and use all their buffers once."""
        directory = self._home / topic
        directory.mkdir(parents=True)
        self._pipeline = await asyncio.to_thread(self._topic.enter_context, raw_pipeline(directory))
        await asyncio.to_thread(self._pipeline.produce, _WARM_UP_MESSAGE_BYTES, _WARM_UP_MESSAGES, IN_FLIGHT)

    async def end(self, topic: str) -> None:
        await asyncio.to_thread(self._topic.close)

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        message = settings.batch_bytes or record_bytes
        return await asyncio.to_thread(self._pipeline.produce, message, record_bytes * records // message, IN_FLIGHT)

    async def pace(
        self, topic: str, record_bytes: int, records: int, per_second: float, warm_up: int, settings: Settings
    ) -> Sequence[float]:
        waits = await asyncio.to_thread(self._pipeline.pace, record_bytes, records, per_second)
        return waits[warm_up:]

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        raise NotImplementedError("the raw pipeline has no consumers")
