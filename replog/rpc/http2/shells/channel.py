"""`replog.rpc.transport.Channel` over HTTP/2: one connection to an address, made when it is needed."""

import asyncio
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from replog.config.listeners import parse_address
from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import Buffer
from replog.rpc.codec import pieces_of
from replog.rpc.http2.shells.calls import request_fields
from replog.rpc.http2.shells.client_connection import ClientConnection
from replog.rpc.http2.shells.message_stream import MessageStream
from replog.rpc.http2.shells.reads import Reads
from replog.rpc.methods import Method
from replog.rpc.names import UNKNOWN, look_up
from replog.rpc.tasks import may_fail_unheard
from replog.rpc.tls import Tls
from replog.rpc.transport import Handle, always

CONNECT_S = 3.0  # one attempt: to connect, and to receive the server's first bytes
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.05, 1.0  # the pause between failed attempts; calls in it fail at once
CONNECTIONS = 3  # tried in turn for a call: a stopping server may accept a connection, and no call
ACKNOWLEDGED_MS = 5000  # the peer's TCP must acknowledge what was sent within this time


class H2Stream:
    """`replog.rpc.transport.Stream`."""

    def __init__(self, channel: "H2Channel", method: Method) -> None:
        self._channel = channel
        self._method = method
        self._connection: ClientConnection
        self._stream: MessageStream | None = None
        self._opening: asyncio.Task[tuple[ClientConnection, MessageStream]] | None = None
        self._ended: ReplogError | None = None  # this side has ended it
        self._early: list[Any] = []  # posted before the stream is open

    async def _opened(self) -> MessageStream:
        if self._stream is None:
            self._check_open()
            if self._opening is None:
                self._opening = may_fail_unheard(self._channel.opened(self._method))
            try:
                self._connection, stream = await asyncio.shield(self._opening)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or not task.cancelling():  # only the opening was cancelled
                    self._check_open()
                raise
            self._check_open()
            self._stream = stream
            early, self._early = self._early, []
            for message in early:
                self.post(message)
        return self._stream

    def _check_open(self) -> None:
        if self._ended is not None:
            raise ReplogError(self._ended.code, self._ended.message)

    async def send(self, message: Any) -> None:
        stream = self._stream or await self._opened()
        if stream.over or self._ended is not None:
            ended = ErrorCode.NETWORK_EXCEPTION.error(f"{self._channel.address}: the stream has ended")
            failure = stream.failure or self._ended or ended
            raise ReplogError(failure.code, failure.message)
        self.post(message)
        if stream.waits:
            await stream.all_gone()

    def post(self, message: Any) -> None:
        if self._stream is None:
            self._early.append(message)
        elif not self._stream.over:
            self._stream.send(pieces_of(self._method.encode_request, message))
            self._connection.write()

    async def each(self, handle: Handle, ready: Callable[[], bool] = always) -> None:
        stream, method, address = await self._opened(), self._method, self._channel.address
        await stream.each(lambda payload: handle(decoded(method, payload, address)), ready)

    def go_on(self) -> None:
        if self._stream is not None:
            self._stream.go_on()

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        try:
            if self._stream is None:
                async with asyncio.timeout(timeout_s):
                    await self._opened()
            assert self._stream is not None
            payload = await self._stream.next(timeout_s)
        except TimeoutError:
            self._end(ErrorCode.REQUEST_TIMED_OUT.error(f"{self._channel.address} said nothing for {timeout_s:g} s"))
            self._check_open()
        return None if payload is None else decoded(self._method, payload, self._channel.address)

    async def finish(self) -> None:
        stream = await self._opened()
        if not stream.over:
            self._connection.http2.end(stream.stream_id)
            self._connection.write()

    def cancel(self) -> None:
        self._end(ErrorCode.NETWORK_EXCEPTION.error(f"{self._channel.address}: the call was cancelled"))

    def _end(self, failure: ReplogError) -> None:
        self._ended = self._ended or failure
        if self._stream is not None:
            self._connection.give_up(self._stream, failure)
        elif self._opening is not None:
            self._opening.add_done_callback(_give_up_opened)
            self._opening.cancel()


def _give_up_opened(opening: "asyncio.Task[tuple[ClientConnection, MessageStream]]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        connection, stream = opening.result()
        connection.give_up(stream)


class H2Channel:
    """`replog.rpc.transport.Channel`."""

    def __init__(self, address: str, tls: Tls | None = None) -> None:
        self.address = address
        self._tls = tls
        self._connection: ClientConnection | None = None
        self._connections: set[ClientConnection] = set()  # the current one, and those that only end their calls
        self._connecting: asyncio.Task[ClientConnection] | None = None
        self._closed = False
        self._failures = 0  # failed attempts to connect, in a row
        self._refused = ""  # the last failure: as text, because a kept error keeps what its traceback knows
        self._again_at = 0.0

    # -- calls

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any:
        pieces = pieces_of(method.encode_request, request)
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            return decoded(method, await self._answer(method, pieces, deadline, again=True), self.address)
        except TimeoutError:
            raise ErrorCode.REQUEST_TIMED_OUT.error(f"{self.address} did not answer in time") from None

    async def _answer(self, method: Method, pieces: Sequence[Buffer], deadline: float, again: bool) -> Any:
        """Call, and return the answer. Raises TimeoutError too."""
        loop = asyncio.get_running_loop()
        connection, stream = await self.opened(method, deadline)
        try:
            stream.send(pieces, end=True)
            connection.write()
            answer = await stream.next(deadline - loop.time())
            if answer is None or await stream.next(deadline - loop.time()) is not None:
                raise ErrorCode.UNKNOWN_SERVER_ERROR.error(f"{self.address}: one answer was to come")
            return answer
        except ReplogError:
            if again and stream.failure is connection.untouched:
                return await self._answer(method, pieces, deadline, again=False)
            raise
        finally:
            connection.give_up(stream)

    async def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        connection, stream = await self.opened(method)
        try:
            stream.send(pieces_of(method.encode_request, request), end=True)
            connection.write()
            while (payload := await stream.next()) is not None:
                yield decoded(method, payload, self.address)
        finally:
            connection.give_up(stream)

    def open(self, method: Method) -> H2Stream:
        return H2Stream(self, method)

    async def opened(self, method: Method, deadline: float | None = None) -> tuple[ClientConnection, MessageStream]:
        """Open a call on a connection that takes it. Raises TimeoutError at the deadline."""
        connection = self._connection
        if connection is None or not connection.usable or not connection.http2.can_open:
            async with asyncio.timeout_at(deadline):
                connection = await self._with_a_place()
        # rounded up: the server may wait as long as the client
        left_ms = None if deadline is None else math.ceil((deadline - asyncio.get_running_loop().time()) * 1000)
        scheme = "http" if self._tls is None else "https"
        return connection, connection.open(request_fields(method.path, self.address, left_ms, scheme))

    async def _with_a_place(self) -> ClientConnection:
        why = ""
        for _ in range(CONNECTIONS):
            connection = self._connection
            if connection is None or not connection.usable:
                connection = await self._connected()
            if await connection.place():
                return connection
            why = connection.why
        raise ErrorCode.NETWORK_EXCEPTION.error(
            f"{self.address} cannot be reached: it takes no calls on new connections: {why}"
        )

    # -- the connection

    async def _connected(self) -> ClientConnection:
        if self._closed:
            raise ErrorCode.NETWORK_EXCEPTION.error(f"{self.address}: the channel is closed")
        loop = asyncio.get_running_loop()
        if self._connecting is None:
            if self._failures and loop.time() < self._again_at:
                raise ErrorCode.NETWORK_EXCEPTION.error(self._refused)
            self._connecting = may_fail_unheard(self._connect(), f"connect to {self.address}")
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        try:
            self._connection = connection = await self._attempt()
        except (OSError, UnicodeError, ReplogError) as error:
            self._again_at = loop.time() + min(MIN_BACKOFF_S * 2 ** min(self._failures, 10), MAX_BACKOFF_S)
            self._failures += 1
            if isinstance(error, ReplogError):
                self._refused = error.message
            else:
                words = os.strerror(error.errno) if isinstance(error, ConnectionError) and error.errno else str(error)
                words = f"{UNKNOWN} ({error.strerror})" if isinstance(error, socket.gaierror) else words
                why = f"no answer within {CONNECT_S:g} s" if isinstance(error, TimeoutError) else words
                self._refused = f"{self.address} cannot be reached: {why}"
            raise ErrorCode.NETWORK_EXCEPTION.error(self._refused) from None
        else:
            self._failures = 0
            self._connections = {each for each in self._connections if not each.lost} | {connection}
            return connection
        finally:
            self._connecting = None

    async def _attempt(self) -> ClientConnection:
        """Try the host's addresses in turn, looked up each time: it may have moved. Raises the last failure."""
        host, port = parse_address(self.address)
        loop = asyncio.get_running_loop()
        until = loop.time() + CONNECT_S
        if self._tls is not None:
            self._tls.look_soon()
        async with asyncio.timeout_at(until):
            places = await look_up(host, port)
        failure: Exception = OSError("the name has no address")
        for number, (family, kind, protocol, _, place) in enumerate(places):
            try:
                async with asyncio.timeout((until - loop.time()) / (len(places) - number)):
                    return await self._connect_to(socket.socket(family, kind, protocol), place)
            except (OSError, ReplogError) as error:
                failure = error
        raise failure

    async def _connect_to(self, unconnected: socket.socket, place: tuple[Any, ...]) -> ClientConnection:
        loop = asyncio.get_running_loop()
        try:
            unconnected.setblocking(False)
            if sys.platform == "linux":
                unconnected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ACKNOWLEDGED_MS)
            await loop.sock_connect(unconnected, place)
            _, connection = await loop.create_connection(
                lambda: ClientConnection(self.address, Reads(), self._tls), sock=unconnected
            )
        except BaseException:
            unconnected.close()
            raise
        try:
            await connection.ready
        except BaseException:
            connection.abort()
            raise
        return connection

    async def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        for connection in self._connections:
            connection.close("the channel is closed")
        for connection in self._connections:
            await connection.closed()


def decoded(method: Method, payload: bytes, address: str) -> Any:
    try:
        return method.decode_response(payload)
    except Exception as error:  # noqa: BLE001 (protobuf raises several kinds)
        raise ErrorCode.UNKNOWN_SERVER_ERROR.error(f"{address}: its answer cannot be read: {error}") from None
