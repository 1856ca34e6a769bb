"""A call ends while one message of it is half received, and another half sent: its connection goes on, and has nothing
of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from replog.errors import ErrorCode
from replog.rpc import methods
from replog.rpc.codec import pieces_of
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.frames import CANCEL, DATA, HEADERS, PREFACE, RST_STREAM
from replog.rpc.http2.protocol.hpack import encode_fields
from replog.rpc.http2.shells.calls import request_fields
from replog.rpc.http2.shells.server import H2Server
from replog.rpc.v1 import log_pb2
from tests.replog.rpc.handlers import Handlers, ask, channel_to, error_of
from tests.replog.rpc.http2.accounts import check_accounts
from tests.replog.rpc.http2.pairs import ANSWER, OK
from tests.replog.rpc.http2.raw import data, headers, message, number, reset, settings, update

S = 60.0
WINDOW = 65_535
LARGE = message(bytes(400_000))
HALF = b"".join(data(1, LARGE[at : at + 10_000]) for at in range(0, 200_000, 10_000))
LATE = data(1, LARGE[200_000:210_000])  # was on the way when the call ended
FETCH = methods.Log["fetch"]


class Frames:
    """What a peer sends: all of its frames so far."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.came: list[tuple[int, int, bytes]] = []  # kind, stream, payload

    async def until(self, kind: int, stream: int) -> bytes:
        """The payload of the first such frame."""
        async with asyncio.timeout(S):
            while not (found := [came[2] for came in self.came if came[:2] == (kind, stream)]):
                await self.next()
            return found[0]

    async def next(self) -> tuple[int, int, bytes]:
        header = await self._reader.readexactly(9)
        payload = await self._reader.readexactly(int.from_bytes(header[:3]))
        self.came.append((header[3], int.from_bytes(header[5:9]), payload))
        return self.came[-1]

    def size(self, stream: int) -> int:
        """Of the data that came."""
        return sum(len(payload) for kind, of, payload in self.came if (kind, of) == (DATA, stream))


async def _nothing_is_left(connection: Connection) -> None:
    async with asyncio.timeout(S):
        while connection.held or connection.open_streams:
            await asyncio.sleep(0.01)
    check_accounts(connection)


def _call(stream: int, timeout_ms: int) -> bytes:
    return headers(stream, block=encode_fields(request_fields(FETCH.path, "here", timeout_ms)))


def _request(correlation_id: int) -> bytes:
    request = log_pb2.FetchRequest(correlation_id=correlation_id)
    return message(b"".join(pieces_of(FETCH.encode_request, request)))


@contextlib.asynccontextmanager
async def _raw_client(handlers: Handlers) -> AsyncIterator[tuple[Frames, asyncio.StreamWriter, Connection]]:
    """The frames that it hears, where it writes, and the server's side of its connection."""
    server = H2Server("127.0.0.1:0")
    server.add(methods.LOG, handlers)
    reader, writer = await asyncio.open_connection(*(await server.start()).split(":"))
    try:
        writer.write(PREFACE + settings({}))
        heard = Frames(reader)
        await heard.next()
        (connection,) = server._connections
        yield heard, writer, connection.http2
    finally:
        writer.close()
        await server.stop(0)


@pytest.mark.parametrize("ends", ["deadline", "cancelled"])
async def test_at_a_server(ends):
    handlers = Handlers()
    handlers.answer_bytes = 2 * WINDOW
    async with _raw_client(handlers) as (heard, writer, connection):
        writer.write(_call(1, 3000 if ends == "deadline" else 600_000) + data(1, _request(1)) + update(0, 1 << 20))
        writer.write(HALF)
        async with asyncio.timeout(S):
            while heard.size(1) < WINDOW:
                await heard.next()
            while connection.held < 200_000 and not handlers.ended:
                await asyncio.sleep(0.01)
        if ends == "cancelled":
            assert connection.waiting(1) > WINDOW / 2
            writer.write(reset(1, CANCEL))
        await _nothing_is_left(connection)
        async with asyncio.timeout(S):
            while not handlers.ended:  # its task is told a turn later
                await asyncio.sleep(0.01)
        assert len(handlers.ended) == 1
        assert "CancelledError" in handlers.ended[0]
        if ends == "deadline":
            assert await heard.until(RST_STREAM, 1) == number(CANCEL)
            writer.write(LATE + update(1, 1 << 20))
        handlers.answer_bytes = 1
        writer.write(_call(3, 600_000) + data(3, _request(2), end=True))
        assert await heard.until(DATA, 3)
        assert heard.size(1) == WINDOW


class Half:
    """A server that answers the first call with a half of a message, and takes as much of its request as fits the first
    window; other calls it answers."""

    def __init__(self) -> None:
        self.heard: list[Frames] = []  # by connection
        self.over = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(heard := Frames(reader))
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readexactly(len(PREFACE))
            writer.write(settings({}))
            while not self.over.is_set():
                kind, stream, payload = await heard.next()
                if kind == DATA:
                    writer.write(update(0, len(payload)) if payload else b"")
                elif kind == HEADERS:
                    writer.write(headers(stream, block=encode_fields(ANSWER)))
                    if stream == 1:
                        writer.write(HALF)
                    else:
                        answer = log_pb2.GetMetadataResponse(topics=[log_pb2.TopicMetadata(topic="answered")])
                        writer.write(data(stream, message(answer.SerializeToString())))
                        writer.write(headers(stream, True, encode_fields(OK)))
                elif kind == RST_STREAM:
                    writer.write(LATE)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        listener = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        self.over.set()
        listener.close()


@pytest.mark.parametrize("ends", ["deadline", "cancelled"])
async def test_at_a_client(ends):
    server = Half()
    async with server.listening() as address, channel_to(address) as channel:
        calling = asyncio.create_task(ask(channel, "x" * 200_000, timeout_s=3.0 if ends == "deadline" else S))
        async with asyncio.timeout(S):
            while not server.heard or server.heard[0].size(1) < WINDOW:
                await asyncio.sleep(0.01)
            while channel._connection.http2.held < 200_000 and not calling.done():
                await asyncio.sleep(0.01)
        connection = channel._connection.http2
        if ends == "cancelled":
            assert connection.waiting(1) > 100_000
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            assert calling.cancelled()
        else:
            assert (await error_of(calling)).code is ErrorCode.REQUEST_TIMED_OUT
        await _nothing_is_left(connection)
        assert await ask(channel, "after") == ["answered"]
        (heard,) = server.heard
        assert await heard.until(RST_STREAM, 1) == number(CANCEL)
        assert heard.size(1) == WINDOW
        await _nothing_is_left(connection)
