"""What waits to be sent on one stream, sent in as few messages as will hold it.

Roles and purgatories complete operations from plain function calls; a stream sends from a task. Between them lies
an outbox: `put` never waits, the sender takes everything that has gathered while the previous message was going out.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from replog.rpc.server import ServerStream

T = TypeVar("T")


class Outbox(Generic[T]):
    """Items for one stream. Bounded by its owner, who takes no further request while too much is unanswered."""

    def __init__(self, stream: ServerStream, combine: Callable[[list[T]], list[Any]]) -> None:
        self._stream = stream
        self._combine = combine
        self._items: list[T] = []
        self._wake = asyncio.Event()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled or the stream fails."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            items, self._items = self._items, []
            for message in self._combine(items):
                await self._stream.send(message)
