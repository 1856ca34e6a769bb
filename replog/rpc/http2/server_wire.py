"""The server's side of one connection: each call becomes a task, which ends with the call."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from google.rpc import code_pb2

from replog.errors import ReplogError
from replog.rpc.codec import pieces_of
from replog.rpc.http2 import events
from replog.rpc.http2.bounds import Bounds
from replog.rpc.http2.calls import ANSWER, OK_TRAILERS, Asked, Refused, parse_request, trailers, whole_answer
from replog.rpc.http2.connection import Connection
from replog.rpc.http2.exchange import Exchange
from replog.rpc.http2.fields import FieldList
from replog.rpc.http2.frames import ENHANCE_YOUR_CALM
from replog.rpc.http2.reads import Reads
from replog.rpc.http2.unread import Unread
from replog.rpc.http2.wire import Wire
from replog.rpc.limits import MAX_REQUEST_BYTES, MAX_STREAMS, Gate
from replog.rpc.methods import Method
from replog.rpc.serving import decoded, serve, status_of
from replog.rpc.status import CallStatus, to_status
from replog.rpc.transport import always

SILENCE_S = 30.0  # until a ping
_TOO_LATE = CallStatus(code_pb2.DEADLINE_EXCEEDED, "the time that the client gave has passed", b"")
_STOPPING = CallStatus(code_pb2.UNAVAILABLE, "the server is stopping; ask another one, or this one later", b"")


class Route(NamedTuple):
    """One method of a server."""

    method: Method
    handler: Callable[..., Any]
    gate: Gate
    ends_with_answer: bool  # the handler does nothing after its one answer


class ServerCall:
    """`replog.rpc.transport.ServerStream`."""

    def __init__(self, wire: "ServerWire", exchange: Exchange, route: Route) -> None:
        self.exchange = exchange
        self.task: asyncio.Task[None]
        self._wire = wire
        self._route = route
        self._answered = False
        self._much = False  # waited when the last message was sent: look again

    @property
    def path(self) -> str:
        return self._route.method.path

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        payload = await self.exchange.next(timeout_s)
        if payload is None:
            return None
        message = decoded(self._route.method.decode_request, payload)
        if isinstance(message, ReplogError):
            raise message
        return message

    async def each(self, handle: Callable[[Any], None], ready: Callable[[], bool] = always) -> None:
        decode, exchange = self._route.method.decode_request, self.exchange

        def take(payload: bytes) -> None:
            message = decoded(decode, payload)
            if isinstance(message, ReplogError):
                raise message
            handle(message)

        await exchange.each(take, lambda: not (self._much and exchange.must_wait) and ready())

    def go_on(self) -> None:
        self.exchange.go_on()

    def post(self, message: Any) -> None:
        exchange, wire = self.exchange, self._wire
        if wire.calls.get(exchange.stream) is not self:
            return
        if not self._answered:
            self._answered = True
            wire.connection.send_headers(exchange.stream, ANSWER)
        much = self._much = exchange.send(pieces_of(self._route.method.encode_response, message))
        if much or self._route.method.server_streaming:
            wire.write()
        elif not self._route.ends_with_answer:  # whose trailers follow at once
            wire.write_soon()

    async def send(self, message: Any) -> None:
        self.post(message)
        if self._much:
            await self.exchange.room()

    async def run(self) -> None:
        route = self._route
        try:
            await serve(route.method, route.handler, route.gate, self)
        except asyncio.CancelledError:
            if self._wire.is_under_way(self):
                raise  # by somebody else: the loop ends
        except Exception as error:  # noqa: BLE001 (the boundary: every failure becomes a status)
            self._wire.end(self, status_of(error))
        else:
            self._wire.end(self, None)

    def ending(self, status: CallStatus | None) -> Any:
        """Headers of the end."""
        if status is None:
            return OK_TRAILERS if self._answered else (*ANSWER, *OK_TRAILERS)
        return trailers(status) if self._answered else whole_answer(status)


class ServerWire(Wire):
    def __init__(
        self,
        routes: Mapping[str, Route],
        reads: Reads,
        unread: Unread,
        takes: Callable[["ServerWire"], bool],
        on_closed: Callable[["ServerWire"], None],
        on_drained: Callable[[], None],
    ) -> None:
        """`takes` says whether there is a place for one more connection. `on_drained` is called when no call is left
        of those before `go_away`, or the connection is lost."""
        bounds = Bounds(MAX_REQUEST_BYTES, max_streams=MAX_STREAMS)
        super().__init__(Connection("server", bounds), "the client", SILENCE_S, reads)
        self.calls: dict[int, ServerCall] = {}
        self._routes = routes
        self._last_headers: FieldList | None = None
        self._last_asked: Asked
        self._unread = unread
        self._takes = takes
        self._on_closed = on_closed
        self._on_drained = on_drained

    def __str__(self) -> str:
        return f"{self.peer}, {', '.join(sorted({call.path for call in self.calls.values()}))}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._takes(self):
            super().connection_made(transport)
        else:
            self.lost = True
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_closed(self)
        super().connection_lost(exc)

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        self._unread.came(nbytes)

    def is_under_way(self, call: ServerCall) -> bool:
        return self.calls.get(call.exchange.stream) is call

    def end(self, call: ServerCall, status: CallStatus | None) -> None:
        """Say how the call ended; None: well. The first word counts."""
        if self._forget(call.exchange.stream) is not None:
            self.connection.send_trailers(call.exchange.stream, call.ending(status))
            self.write()

    def _forget(self, stream: int) -> ServerCall | None:
        call = self.calls.pop(stream, None)
        if call is not None:
            del self.exchanges[stream]
            call.exchange.drop()
            self.deadlines.drop(call)
        return call

    def _cut_short(self, call: ServerCall, status: CallStatus) -> None:
        self.end(call, status)
        call.task.cancel()

    def _too_late(self, call: ServerCall) -> None:
        self._cut_short(call, _TOO_LATE)

    def refuse(self, stream: int, error: ReplogError) -> None:
        """End its call, and let go of its messages."""
        if (call := self.calls.get(stream)) is not None:
            self._cut_short(call, to_status(error))
        self.connection.reset(stream, ENHANCE_YOUR_CALM)  # if the end has to wait for a window
        self.write_soon()

    def cut_short_all(self) -> None:
        """The server stops."""
        for call in list(self.calls.values()):
            self._cut_short(call, _STOPPING)

    # -- what arrives

    def on_headers(self, event: events.Headers) -> None:
        if self.lost:  # by the answer to a message before it in the same read: nobody would end this call
            return
        stream = event.stream
        try:
            asked = self._parsed(event.headers)
        except Refused as refused:
            self.connection.send_trailers(stream, refused.fields)
            return
        route = self._routes.get(asked.path)
        if route is None:
            status = CallStatus(code_pb2.UNIMPLEMENTED, f"there is no method {asked.path[:200]} here", b"")
            self.connection.send_trailers(stream, whole_answer(status))
            return
        exchange = self.exchanges[stream] = Exchange(self.connection, stream, self.write_soon, self.deadlines)
        call = self.calls[stream] = ServerCall(self, exchange, route)
        if event.end:
            exchange.on_over()
        if asked.timeout_s is not None:
            self.deadlines.set(call, asked.timeout_s, self._too_late)
        call.task = self._loop.create_task(call.run(), name=route.method.path)

    def _parsed(self, headers: FieldList) -> Asked:
        """Raises Refused. Equal headers come as the same list mostly, so the last answer holds."""
        if headers is not self._last_headers:
            self._last_asked = parse_request(headers)
            self._last_headers = headers
        return self._last_asked

    def on_ended(self, event: events.Ended) -> None:
        if (exchange := self.exchanges.get(event.stream)) is not None:
            exchange.on_over()

    def on_reset(self, event: events.Reset) -> None:
        if (call := self._forget(event.stream)) is not None:
            call.task.cancel()

    def on_unreadable(self, event: events.Unreadable) -> None:
        status = CallStatus(event.status, event.text, b"")
        if (call := self.calls.get(event.stream)) is not None:
            self._cut_short(call, status)

    def on_trailers(self, event: events.Trailers) -> None:
        raise AssertionError("clients end without trailers")

    def on_opened(self, event: events.Opened) -> None:
        raise AssertionError("servers open nothing")

    def on_go_away(self, event: events.GoAway) -> None:
        """The client opens nothing more; what it has open goes on."""

    def on_drained(self, event: events.Drained) -> None:
        self._on_drained()

    def on_lost(self, failure: ReplogError) -> None:
        self._on_drained()
        for stream in list(self.calls):
            self.on_reset(events.Reset(stream, 0, failure.message))
