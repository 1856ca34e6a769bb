"""How long a process may leave a small request unanswered: what a client sees of a busy event loop.

A process of its own (`benchmarks.beside`) asks every member for next to nothing fifty times a second: replog's for
their health, which their one event loop answers, Kafka's for the versions of their API. The longest answer is as long
as anything held that loop up (for Kafka, its network and request threads), and the network, gRPC and the other
processes of the machine on top. A probe inside the process would see its loop alone, but
would be in the product for the benchmark's sake, and Kafka has none.

`python -m benchmarks.small_requests NAME ADDRESS…` tells milliseconds.
"""

import asyncio
import contextlib
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks.beside import Figures, answer_orders
from replog.rpc.grpcio.options import CHANNEL_OPTIONS

EVERY_S = 0.02
PATIENCE_S = 120.0
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # size, key, version, correlation id, no client id

Ask = Callable[[], Awaitable[object]]


class Responsiveness:
    """Asks every address in turn, one request at a time each, while it is `on`."""

    def __init__(self) -> None:
        self.on = asyncio.Event()
        self.worst_s = 0.0
        self.own_s = 0.0  # the most that this process itself was late
        self._asked: dict[str, float] = {}

    async def watch(self, address: str, connect: Callable[[str], AbstractAsyncContextManager[Ask]]) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError, grpc.RpcError, TimeoutError):  # it is down: that is no answer
                async with connect(address) as ask:
                    await self._watch(address, ask)
            self._asked.pop(address, None)
            await self._sleep()

    async def _watch(self, address: str, ask: Ask) -> None:
        while True:
            await self.on.wait()
            self._asked[address] = started = time.perf_counter()
            async with asyncio.timeout(PATIENCE_S):
                await ask()
            self._answered(started)
            del self._asked[address]
            await self._sleep()

    async def _sleep(self) -> None:
        due = time.perf_counter() + EVERY_S
        await asyncio.sleep(EVERY_S)
        self.own_s = max(self.own_s, time.perf_counter() - due)

    def _answered(self, started: float) -> None:
        self.worst_s = max(self.worst_s, time.perf_counter() - started)

    def tell(self) -> dict[str, float]:
        """Since it was told last; a question that still waits counts as it stands."""
        for started in self._asked.values():
            self._answered(started)
        figures = {"worst_ms": self.worst_s * 1000, "own_ms": self.own_s * 1000}
        self.worst_s = self.own_s = 0.0
        return figures


@contextlib.asynccontextmanager
async def replog_member(address: str) -> AsyncIterator[Ask]:
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        stub, request = health_pb2_grpc.HealthStub(channel), health_pb2.HealthCheckRequest()

        async def ask() -> Any:
            return await stub.Check(request)

        yield ask


@contextlib.asynccontextmanager
async def kafka_member(address: str) -> AsyncIterator[Ask]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))

    async def ask() -> Any:
        writer.write(_API_VERSIONS)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)

    try:
        yield ask
    finally:
        writer.close()


MEMBERS = {"replog": replog_member, "kafka": kafka_member}


async def ask_steadily(name: str, addresses: list[str]) -> None:
    small = Responsiveness()
    watching = [asyncio.create_task(small.watch(address, MEMBERS[name])) for address in addresses]

    async def go() -> Figures:
        small.tell()
        small.on.set()
        return {}

    async def tell() -> Figures:
        assert not any(task.done() for task in watching), watching
        small.on.clear()
        return small.tell()

    await answer_orders(go=go, tell=tell)
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(ask_steadily(sys.argv[1], sys.argv[2:]))
