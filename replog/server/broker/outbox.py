"""What waits to be sent on one stream, in as few messages as possible.

Roles and purgatories complete operations from plain function calls; a stream sends from a task. Between them lies
an outbox: `put` never waits, the sender takes everything that was put while the previous message went out.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from replog.rpc.transport import ServerStream

T = TypeVar("T")


class Outbox(Generic[T]):
    """Items for one stream. Its owner awaits `room` before each request, so a client that does not read is not read
    from either, and what it leaves unread here is at most `capacity` items and the answers to what was under way."""

    def __init__(self, stream: ServerStream, combine: Callable[[list[T]], list[Any]], capacity: int) -> None:
        self._stream = stream
        self._combine = combine
        self._capacity = capacity
        self._items: list[T] = []
        self._sending = 0  # items of the messages going out
        self._ended = False
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()

    def put(self, item: T) -> None:
        if not self._ended:
            self._items.append(item)
            self._wake.set()

    async def room(self) -> None:
        """Wait until fewer than `capacity` items have yet to go out, or nothing will go out any more."""
        await self._fewer_than(self._capacity)

    async def emptied(self) -> None:
        """Wait until no item has yet to go out, or nothing will go out any more."""
        await self._fewer_than(1)

    async def _fewer_than(self, count: int) -> None:
        while not self._ended and len(self._items) + self._sending >= count:
            self._sent.clear()
            await self._sent.wait()

    async def run(self) -> None:
        """Send until cancelled or the stream fails."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                items, self._items = self._items, []
                self._sending = len(items)
                for message in self._combine(items):
                    await self._stream.send(message)
                self._sending = 0
                self._sent.set()
        finally:
            self._ended = True
            self._items.clear()
            self._sent.set()
