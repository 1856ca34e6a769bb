"""Kafka's protocol over the simulated network: a connection is a stream of bytes each way, in any pieces."""

import asyncio
import math

from replog.rpc.limits import Limit
from replog.rpc.methods import Method
from replog.rpc.peer import ANYBODY, peer
from replog.rpc.transport import NewTalk, ServerStream

KAFKA = Method("/kafka", "kafka", True, True, bytes, bytes, bytes, bytes, Limit(0, 0), ANYBODY)
PIECE = 4096  # bytes: the most that a server writes at once


class SimulatedWire:
    """A `replog.rpc.transport.TalkWire`, the server's side of a connection."""

    def __init__(self, stream: ServerStream, new_talk: NewTalk) -> None:
        self.asks = peer()
        self.idle_since = math.inf
        self._stream = stream
        self._reads, self._writes = asyncio.Event(), asyncio.Event()
        self._reads.set()
        self._ended = False
        self._talk = new_talk(self)

    async def serve(self) -> None:
        """Return when the client, or the talk, has ended it."""
        tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._send())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            self._talk.close()

    async def _receive(self) -> None:
        while (data := await self._stream.receive()) is not None:
            await self._reads.wait()
            if not self._ended:
                self._talk.receive(memoryview(data), int(asyncio.get_running_loop().time() * 1000))

    async def _send(self) -> None:
        while not self._ended:
            await self._writes.wait()
            self._writes.clear()
            while pieces := self._talk.to_send(PIECE):
                await self._stream.send(b"".join(pieces))
                self._talk.written()
            self._talk.written()

    def write(self) -> None:
        self._writes.set()

    def read(self, on: bool) -> None:
        (self._reads.set if on else self._reads.clear)()

    def hang_up(self, _why: str) -> None:
        self._ended = True
        self._writes.set()

    def drained(self) -> None:
        self.hang_up("")

    def drain(self) -> None:
        self._talk.drain()
        if not self._talk.busy():
            self.drained()
