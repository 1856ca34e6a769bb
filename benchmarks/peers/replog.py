"""replog: a controller and three brokers with their default settings, and the client of `replog_client.py`.

Twice: all of it over the transport that is the default, and over the other one.
"""

import contextlib
import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from benchmarks.beside import Beside
from benchmarks.contenders import create_in_sync
from benchmarks.contenders.replog import Replog
from benchmarks.peers.peer import CLIENT, PARTITIONS, Settings
from replog.client import Producer
from replog.rpc.transports import DEFAULT, TRANSPORTS

(_OTHER,) = TRANSPORTS.keys() - {DEFAULT}
_DEFAULTS = inspect.signature(Producer).parameters


class ReplogPeer:
    """`benchmarks.peers.peer.Peer`."""

    name = "replog"
    transport = DEFAULT
    defaults = Settings(_DEFAULTS["batch_size"].default, round(_DEFAULTS["linger_ms"].default))
    warm_up_mb = 100

    @contextlib.asynccontextmanager
    async def running(self, home: Path) -> AsyncIterator[None]:
        self._cluster = Replog(home, self.transport)
        try:
            await self._cluster.start()
            client = ("benchmarks.peers.replog_client", self._cluster.bootstrap, self.transport)
            async with Beside.running(*client) as self._client:
                yield
        finally:
            await self._cluster.close()

    @property
    def pids(self) -> Mapping[str, int]:
        return {**self._cluster.pids, CLIENT: self._client.pid}

    async def create(self, topic: str) -> None:
        await create_in_sync(self._cluster, topic, PARTITIONS)

    async def end(self, topic: str) -> None:
        """It stays: its files would be removed a minute after a deletion, while other rows are measured."""

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        answer = await self._client.order(
            "produce", topic=topic, record_bytes=record_bytes, records=records, settings=_options(settings)
        )
        return float(answer["seconds"])

    async def pace(
        self, topic: str, record_bytes: int, records: int, per_second: float, warm_up: int, settings: Settings
    ) -> Sequence[float]:
        answer = await self._client.order(
            "pace",
            topic=topic,
            record_bytes=record_bytes,
            records=records,
            per_second=per_second,
            warm_up=warm_up,
            settings=_options(settings),
        )
        return [wait / 1e6 for wait in answer["waits_us"]]

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        return float((await self._client.order("consume", topic=topic, records=records))["seconds"])


class OtherReplogPeer(ReplogPeer):
    name = f"replog, {_OTHER}"
    transport = _OTHER


def _options(settings: Settings) -> dict[str, int]:
    options = {"batch_size": settings.batch_bytes, "linger_ms": settings.linger_ms}
    return {name: value for name, value in options.items() if value is not None}
