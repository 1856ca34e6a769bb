"""A Kafka client whose answers are taken in the order of its requests."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from replog.kafka.versions import APIS
from tests.replog.server.broker.kafka import client

KEYS = {api.name: api.key for api in APIS.values()}


class InOrder:
    def __init__(self, client: client.Client) -> None:
        self._client = client
        self._asked = deque[int]()

    def send(self, request: Any, version: int) -> None:
        """Without waiting for the answer, or for the socket."""
        key = KEYS[type(request).__name__.removesuffix("Request")]
        self._asked.append(self._client.send(key, version, request))

    async def receive(self) -> Any:
        return await self._client.answer(self._asked.popleft())

    def expect_none(self) -> None:
        """The first request without an answer gets none."""
        self._asked.popleft()
        self._client._frames._asked.popleft()

    async def closed(self) -> None:
        """Until the broker has closed the connection, without an answer."""
        assert await self._client.rest() == b""

    async def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return await self.receive()


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[InOrder]:
    async with client.connected(address) as connection:
        yield InOrder(connection)
