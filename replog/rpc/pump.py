"""Implements `post` and `each` of `replog.rpc.transport` by tasks, over the `send` and `receive` of a stream."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from replog.errors import ReplogError
from replog.rpc.transport import always

MAX_UNSENT = 2  # posted messages that wait; with so many a server reads no more


class Pump:
    """The base of a stream. A server sets `waits_for_peer`."""

    waits_for_peer = False

    def __init__(self) -> None:
        self._unsent: deque[Any] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._defect: Exception | None = None
        self._may_go_on = asyncio.Event()

    def post(self, message: Any) -> None:
        self._unsent.append(message)
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all(), name="posted messages")

    async def send(self, message: Any) -> None:
        raise NotImplementedError

    async def receive(self) -> Any | None:
        raise NotImplementedError

    async def sent(self) -> None:
        """Wait until all that was posted is sent, or cannot be sent any more."""
        if self._sender is not None:
            await asyncio.wait((self._sender,))

    def go_on(self) -> None:
        self._may_go_on.set()

    async def each(self, handle: Callable[[Any], None], ready: Callable[[], bool] = always) -> None:
        """Receive one message before `ready` is asked."""
        task = asyncio.current_task()
        assert task is not None
        reader = self._reader = asyncio.create_task(self._read(handle, ready), name=task.get_name())
        try:
            await asyncio.wait((reader,))
            if self._defect is not None:
                raise self._defect
            reader.result()
        finally:
            self._reader = None
            if not reader.done():
                reader.cancel()
                await asyncio.wait((reader,))
            if not reader.cancelled():
                reader.exception()  # otherwise nobody takes the error if this task was cancelled in the same turn

    async def _read(self, handle: Callable[[Any], None], ready: Callable[[], bool]) -> None:
        while (message := await self.receive()) is not None:
            while (self.waits_for_peer and len(self._unsent) >= MAX_UNSENT) or not ready():
                self._may_go_on.clear()
                await self._may_go_on.wait()
            handle(message)
            del message  # otherwise it stays in memory until the next one arrives

    async def _send_all(self) -> None:
        try:
            while self._unsent:
                await self.send(self._unsent[0])
                self._unsent.popleft()
                self._may_go_on.set()
        except (ReplogError, asyncio.InvalidStateError):
            pass  # the stream is over; its reader gets that after all messages
        except Exception as error:  # noqa: BLE001 (the reader ends with it)
            self._defect = error
            if self._reader is not None:
                self._reader.cancel()
        finally:
            self._sender = None
            self._unsent.clear()
            self._may_go_on.set()
