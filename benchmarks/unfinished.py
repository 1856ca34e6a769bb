"""A connection that begins a gRPC message and does not end it: HTTP/2 by hand, since no client library does that."""

import asyncio
import contextlib
import struct
from types import TracebackType
from typing import Self

from replog.rpc.transports import client_tls

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_HEADERS, ACK = 4, 1
INITIAL_WINDOW_SIZE = 4  # a setting
WINDOW = 65_535  # until the server says otherwise
FRAME = 16_384  # a frame that every server takes
STREAM = 1


class UnfinishedMessage:
    """One call of `path` whose request says that it has `size` bytes, of which the last is never sent."""

    def __init__(self, address: str, path: str, size: int) -> None:
        self._address = address
        self._path = path
        self._size = size
        self._window = {0: WINDOW, STREAM: WINDOW}
        self._opened = asyncio.Event()
        self.refused = False  # or the connection has ended

    async def __aenter__(self) -> Self:
        host, _, port = self._address.rpartition(":")
        tls = client_tls()
        self._reader, self._writer = await asyncio.open_connection(host, int(port), ssl=tls and tls.material.client)
        self._writer.write(
            PREFACE + _frame(SETTINGS, 0, 0, b"") + _frame(HEADERS, END_HEADERS, STREAM, self._headers())
        )
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def send_all_but_the_end(self) -> None:
        """As fast as the server takes it; returns early when it refuses."""
        with contextlib.suppress(OSError):
            await self._send(struct.pack(">BI", 0, self._size))
            rest = bytes(FRAME)
            for _ in range((self._size - 1) // FRAME):
                await self._send(rest)
                if self.refused:
                    return

    async def _send(self, data: bytes) -> None:
        while not self.refused and min(self._window.values()) < len(data):
            self._opened.clear()
            await self._opened.wait()
        self._window = {stream: left - len(data) for stream, left in self._window.items()}
        self._writer.write(_frame(DATA, 0, STREAM, data))
        await self._writer.drain()

    async def _listen(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                head = await self._reader.readexactly(9)
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                self._heard(kind, flags, stream, await self._reader.readexactly(int.from_bytes(head[:3])))
                if self.refused:
                    break
        self.refused = True
        self._opened.set()

    def _heard(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE:
            self._window[stream] += int.from_bytes(payload)
            self._opened.set()
        elif kind == SETTINGS and not flags & ACK:
            for setting, value in struct.iter_unpack(">HI", payload):
                if setting == INITIAL_WINDOW_SIZE:
                    self._window[STREAM] += value - WINDOW
            self._writer.write(_frame(SETTINGS, ACK, 0, b""))
            self._opened.set()
        elif kind == PING and not flags & ACK:
            self._writer.write(_frame(PING, ACK, 0, payload))
        elif kind in (RESET, GOAWAY, HEADERS):  # a call that has not ended is answered only to refuse it
            self.refused = True

    def _headers(self) -> bytes:
        """Each as a literal that nobody indexes (RFC 7541, 6.2.2): short enough for lengths of one byte."""
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": self._path,
            ":authority": self._address,
            "te": "trailers",
            "content-type": "application/grpc",
        }
        return b"".join(
            b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
            for name, value in headers.items()
        )


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + struct.pack(">BBI", kind, flags, stream) + payload
