"""A Kafka client of a few lines, over a real socket."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

from replog.kafka.frames import ClientFrames

S = 60.0
ANSWER_BYTES = 64 << 20


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = ClientFrames("a client", ANSWER_BYTES)
        self._answers: dict[int, Any] = {}
        self._asked = 0

    def send(self, key: int, version: int, message: Any) -> int:
        """Ask, and return the number of the request."""
        self.writer.write(b"".join(self._frames.ask(key, version, message)))
        self._asked += 1
        return self._asked - 1

    async def answer(self, number: int) -> Any:
        async with asyncio.timeout(S):
            while number not in self._answers:
                data = await self.reader.read(1 << 20)
                assert data, "the connection was closed"
                self._frames.receive(data)
                self._answers.update(self._frames.answers())
        return self._answers.pop(number)

    async def ask(self, key: int, version: int, message: Any) -> Any:
        return await self.answer(self.send(key, version, message))

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
