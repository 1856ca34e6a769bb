"""A Kafka client of a few lines, over a real socket."""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from replog.kafka.frames import ClientFrames
from replog.kafka.versions import APIS

S = 60.0
ANSWER_BYTES = 64 << 20
BY_NAME = {api.name: api for api in APIS.values()}


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = ClientFrames("a client", ANSWER_BYTES)
        self._answers: dict[int, Any] = {}
        self._waiting = deque[int]()
        self._sent = 0

    def send(self, message: Any, version: int | None = None) -> int:
        """Ask in this version, or in the newest one, and return the number of the request. Does not wait for the
        socket, either."""
        api = BY_NAME[type(message).__name__.removesuffix("Request")]
        self.writer.write(b"".join(self._frames.ask(api.key, api.newest if version is None else version, message)))
        self._waiting.append(self._sent)
        self._sent += 1
        return self._waiting[-1]

    async def answer(self, number: int) -> Any:
        async with asyncio.timeout(S):
            while number not in self._answers:
                data = await self.reader.read(1 << 20)
                assert data, "the connection was closed"
                self._frames.receive(data)
                self._answers.update(self._frames.answers())
        self._waiting.remove(number)
        return self._answers.pop(number)

    async def receive(self) -> Any:
        """The next answer, in the order of the requests."""
        return await self.answer(self._waiting[0])

    def expect_none(self) -> None:
        """The first request without an answer gets none."""
        self._waiting.popleft()
        self._frames._asked.popleft()

    async def ask(self, message: Any, version: int | None = None) -> Any:
        return await self.answer(self.send(message, version))

    async def rest(self) -> bytes:
        """All that comes until the other side closes."""
        async with asyncio.timeout(S):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read(-1)
        return b""


@contextlib.asynccontextmanager
async def connected(address: str, tls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[Client]:
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls, **options)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
