"""A Kafka client of one broker: our own codec the other way round, over a real socket."""

import asyncio
from types import TracebackType
from typing import Any, Self

from replog.kafka.frames import ClientFrames
from replog.kafka.versions import APIS
from replog.server.broker.broker import Broker

ANSWER_S = 60.0
MOST = 64 << 20


class Client:
    """Use `async with`; `ask` sends a request and returns its answer."""

    def __init__(self, broker: Broker) -> None:
        self._address = broker.address.rsplit(":", 1)
        self._frames = ClientFrames("test", MOST)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, message: Any, version: int | None = None) -> Any:
        """The answer to a request in this version, or in the newest one."""
        name = type(message).__name__.removesuffix("Request")
        api = next(api for api in APIS.values() if api.name == name)
        pieces = self._frames.ask(api.key, api.newest if version is None else version, message)
        self._writer.write(b"".join(pieces))
        async with asyncio.timeout(ANSWER_S):
            while True:
                for _, answer in self._frames.answers():
                    return answer
                data = await self._reader.read(1 << 20)
                assert data, f"the broker closed the connection instead of answering {name}"
                self._frames.receive(memoryview(data))
