"""A console of a cluster in this process, asked over real HTTP."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from replog.console.process import http_server, watching
from replog.local_cluster.ports import free_port
from tests.replog.client.conftest import cluster
from tests.replog.server.broker.conftest import InProcessCluster

__all__ = ["cluster"]

HEAR_S = 60


class Console:
    def __init__(self, port: int, context: Any = None) -> None:
        self.port = port
        self._context = context

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await asyncio.to_thread(self._get, path, named)

    def _get(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if self._context is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HEAR_S)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=HEAR_S, context=self._context)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    @asynccontextmanager
    async def viewer(self) -> AsyncIterator["Viewer"]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        try:
            writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            yield Viewer(reader)
        finally:
            writer.close()


class Viewer:
    """`rows` and `parts`, as a page keeps them."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.parts: dict[str, Any] = {}
        self.changes: list[dict[str, Any]] = []
        self.told: list[str] = []
        self._reader = reader

    async def status(self) -> int:
        return int((await self._reader.readline()).split()[1])

    async def hear_until(self, wanted: Callable[["Viewer"], bool]) -> None:
        async with asyncio.timeout(HEAR_S):
            while not wanted(self):
                line = await self._reader.readline()
                assert line, "the console closed the stream"
                if line.startswith(b"data: {"):
                    news = json.loads(line.removeprefix(b"data: "))
                    if news["all"]:
                        self.rows.clear()
                    self.rows |= {row["key"]: row for row in news["rows"]}
                    self.parts |= news["parts"]
                    self.changes += news["changes"]
                    self.told += [row["key"] for row in news["rows"]]

    def states(self) -> set[str]:
        return {row["state"] for row in self.rows.values()}


@asynccontextmanager
async def running(server: uvicorn.Server) -> AsyncIterator[None]:
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(HEAR_S):
            while not server.started:
                await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
def console(cluster: InProcessCluster) -> Callable[..., Any]:
    @asynccontextmanager
    async def started(audit: Path | None = None) -> AsyncIterator[Console]:
        bootstrap = ",".join(broker.address for broker in cluster.brokers.values())
        async with watching(bootstrap, audit) as watcher:
            port = free_port(set())
            async with running(http_server(watcher, "127.0.0.1", port, {})):
                yield Console(port)

    return started
