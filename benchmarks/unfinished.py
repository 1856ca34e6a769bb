"""A connection that begins a gRPC message and does not end it. No gRPC library does that, so `h2` makes its frames."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import Self

from h2.connection import H2Connection
from h2.events import ConnectionTerminated, ResponseReceived, StreamReset
from h2.exceptions import ProtocolError

from replog.rpc.transports import client_tls

REFUSALS = (ConnectionTerminated, ResponseReceived, StreamReset)  # any answer to an unfinished call refuses it
FRAME = 16_384  # bytes of a frame that every server accepts
STREAM = 1


class UnfinishedMessage:
    """One call of `path` whose request has `size` bytes, of which the last is never sent."""

    def __init__(self, address: str, path: str, size: int) -> None:
        self._address = address
        self._path = path
        self._size = size
        self._h2 = H2Connection()
        self._opened = asyncio.Event()
        self.refused = False  # True also if the connection has ended

    async def __aenter__(self) -> Self:
        host, _, port = self._address.rpartition(":")
        tls = client_tls()
        self._reader, self._writer = await asyncio.open_connection(host, int(port), ssl=tls and tls.material.client)
        self._h2.initiate_connection()
        headers = {":method": "POST", ":scheme": "http", ":path": self._path, ":authority": self._address}
        headers |= {"te": "trailers", "content-type": "application/grpc"}
        self._h2.send_headers(STREAM, list(headers.items()))
        self._writer.write(self._h2.data_to_send())
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def send_all_but_the_end(self) -> None:
        """Send as fast as the server accepts it; return early if it refuses."""
        frames = [struct.pack(">BI", 0, self._size), *[bytes(FRAME)] * ((self._size - 1) // FRAME)]
        with contextlib.suppress(OSError):
            for data in frames:
                while not self.refused and self._h2.local_flow_control_window(STREAM) < len(data):
                    self._opened.clear()
                    await self._opened.wait()
                if self.refused:
                    return
                self._h2.send_data(STREAM, data)
                self._writer.write(self._h2.data_to_send())
                await self._writer.drain()

    async def _listen(self) -> None:
        with contextlib.suppress(OSError, ProtocolError):
            while data := await self._reader.read(1 << 16):
                events = self._h2.receive_data(data)
                self._writer.write(self._h2.data_to_send())
                self._opened.set()
                if any(isinstance(event, REFUSALS) for event in events):
                    break
        self.refused = True
        self._opened.set()


@contextlib.asynccontextmanager
async def unfinished(address: str, path: str, messages: int, size: int) -> AsyncIterator[list[UnfinishedMessage]]:
    """Send messages without their last bytes, each on its own connection."""
    async with contextlib.AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(UnfinishedMessage(address, path, size)) for _ in range(messages)]
        await asyncio.gather(*(message.send_all_but_the_end() for message in opened))
        yield opened
