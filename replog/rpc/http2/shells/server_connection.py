"""The server's side of one connection: each call becomes a task, which ends with the call."""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from google.rpc import code_pb2

from replog.errors import ErrorCode, ReplogError
from replog.rpc.codec import pieces_of
from replog.rpc.http2.protocol import events
from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.frames import CANCEL, ENHANCE_YOUR_CALM
from replog.rpc.http2.shells.accepted import SILENCE_S, Accepted
from replog.rpc.http2.shells.calls import ANSWER, OK_TRAILERS, Refused, parse_request, trailers, whole_answer
from replog.rpc.http2.shells.message_stream import MessageStream
from replog.rpc.http2.shells.socket_connection import SocketConnection
from replog.rpc.limits import MAX_REQUEST_BYTES, MAX_STREAMS
from replog.rpc.peer import handling
from replog.rpc.serving import Route, decoded, serve, status_of
from replog.rpc.status import CallStatus, to_status
from replog.rpc.transport import Handle, always

_TOO_LATE = CallStatus(code_pb2.DEADLINE_EXCEEDED, "the time that the client gave has passed", b"")
_STOPPING = CallStatus(code_pb2.UNAVAILABLE, "the server is stopping; ask another one, or this one later", b"")


class ServerCall:
    """`replog.rpc.transport.ServerStream`."""

    def __init__(self, connection: "ServerConnection", stream: MessageStream, route: Route) -> None:
        self.stream = stream
        self.task: asyncio.Task[None]
        self.deadline: asyncio.TimerHandle | None = None
        self._connection = connection
        self._route = route
        self._answered = False

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        payload = await self.stream.next(timeout_s)
        return None if payload is None else self._checked(payload)

    def _checked(self, payload: bytes) -> Any:
        method = self._route.method
        message = decoded(method.decode_request, payload)
        if isinstance(message, ReplogError):
            try:
                raise message
            finally:
                del message  # otherwise it holds itself, and the payload, by the frames of its traceback
        method.access.check_claim(method.path, self._connection.asks, message)
        return message

    async def each(self, handle: Handle, ready: Callable[[], bool] = always) -> None:
        stream, asks = self.stream, self._connection.asks

        def take(payload: bytes) -> Iterator[None] | None:
            message = self._checked(payload)
            handling(asks)
            return handle(message)

        await stream.each(take, lambda: not (stream.waits and stream.must_wait) and ready())

    def go_on(self) -> None:
        self.stream.go_on()

    def post(self, message: Any) -> None:
        stream, connection = self.stream, self._connection
        if connection.calls.get(stream.stream_id) is not self:
            return
        if not self._answered:
            self._answered = True
            connection.http2.send_headers(stream.stream_id, ANSWER)
        stream.send(pieces_of(self._route.method.encode_response, message))
        if stream.waits or self._route.method.server_streaming:
            connection.write()
        elif not self._route.ends_with_answer:  # its trailers follow at once
            connection.write_soon()

    async def send(self, message: Any) -> None:
        self.post(message)
        if self.stream.waits:
            await self.stream.all_gone()

    async def run(self) -> None:
        try:
            await serve(self._route, self, self._connection.asks)
        except asyncio.CancelledError:
            if self._connection.calls.get(self.stream.stream_id) is self:
                raise  # the loop ends
        except Exception as error:  # noqa: BLE001 (the boundary: every failure becomes a status)
            self._connection.end(self, status_of(error))
        else:
            self._connection.end(self, None)

    def ending(self, status: CallStatus | None) -> Any:
        if status is None:
            return OK_TRAILERS if self._answered else (*ANSWER, *OK_TRAILERS)
        return trailers(status) if self._answered else whole_answer(status)


class ServerConnection(Accepted, SocketConnection):
    def __init__(self, newcomer: Accepted, routes: Mapping[str, Route], also: str = "") -> None:
        bounds = Bounds(MAX_REQUEST_BYTES, max_streams=MAX_STREAMS)
        SocketConnection.__init__(self, Connection("server", bounds), "the client", SILENCE_S, newcomer.shared.reads)
        self.calls: dict[int, ServerCall] = {}
        self._routes = routes
        self.http2.speaks += also
        self.succeed(newcomer)

    def __str__(self) -> str:
        return f"{self.peer}, {', '.join(sorted({call.task.get_name() for call in self.calls.values()}))}"

    def close(self, why: str | None = None) -> None:
        """Close it as any; the client's bytes are read and dropped meanwhile, so that it gets the last words."""
        if not self.lost:
            self.http2.go_away(text=why or "", at_once=True)
            self._write()
            self.refuse_connection(why or self.why, b"" if self._tls_layer is None else self._tls_layer.close())

    def on_failed(self, event: events.Failed) -> None:
        self.log_refusal(event.text)
        super().on_failed(event)

    def end(self, call: ServerCall, status: CallStatus | None) -> None:
        """End the call with a status; None: it went well. Only the first call counts."""
        if self._forget(call.stream.stream_id) is not None:
            self.http2.send_trailers(call.stream.stream_id, call.ending(status))
            self.write()

    def _forget(self, stream_id: int) -> ServerCall | None:
        call = self.calls.pop(stream_id, None)
        if call is not None:
            del self.streams[stream_id]
            call.stream.drop()
            if call.deadline is not None:
                call.deadline.cancel()
            if not self.calls:
                self.idle_since = self._loop.time()
        return call

    def drain(self) -> None:
        self.http2.go_away()
        self.write()

    @property
    def busy(self) -> bool:
        return bool(self.http2.streams)

    def tasks(self) -> list[asyncio.Task[None]]:
        return [call.task for call in self.calls.values()]

    @property
    def held(self) -> int:
        return self.http2.held

    def holdings(self) -> Iterable[tuple[int, int, int]]:
        return self.http2.holdings()

    def dismiss(self, why: str) -> None:
        """End all calls, as if the server stopped, and close it: its client knows that later calls were not done."""
        for call in list(self.calls.values()):
            self._cut_short(call, _STOPPING)
        self.close(why)

    def _cut_short(self, call: ServerCall, status: CallStatus) -> None:
        self.end(call, status)
        call.task.cancel()

    def _too_late(self, call: ServerCall) -> None:
        self._cut_short(call, _TOO_LATE)
        if self.http2.waiting(call.stream.stream_id):  # the end would wait behind data that nobody takes
            self.http2.reset(call.stream.stream_id, CANCEL)
            self.write_soon()

    def refuse(self, stream_id: int, error: ReplogError) -> None:
        """End its call, and drop its messages."""
        if (call := self.calls.get(stream_id)) is not None:
            self._cut_short(call, to_status(error))
        self.http2.reset(stream_id, ENHANCE_YOUR_CALM)  # the end may have to wait for a window
        self.write_soon()

    # -- what arrives

    def on_headers(self, event: events.Headers) -> None:
        if self.lost:  # an earlier message in the same read has closed it: nobody would end this call
            return
        stream_id = event.stream_id
        try:
            path, timeout_s = parse_request(event.headers)
            if self.unauthenticated:
                refusal = to_status(ErrorCode.CLUSTER_AUTHORIZATION_FAILED.error(self.unauthenticated))
                raise Refused(whole_answer(refusal))
            route = self._routes.get(path)
            if route is None:
                status = CallStatus(code_pb2.UNIMPLEMENTED, f"there is no method {path[:200]} here", b"")
                raise Refused(whole_answer(status))
        except Refused as refused:
            self.http2.send_trailers(stream_id, refused.fields)
            return
        stream = self.streams[stream_id] = MessageStream(self.http2, stream_id, self.write_soon)
        call = self.calls[stream_id] = ServerCall(self, stream, route)
        self.idle_since = math.inf
        if event.end:
            stream.on_over()
        if timeout_s is not None:
            call.deadline = self._loop.call_later(timeout_s, self._too_late, call)
        handling(self.asks)
        call.task = self._loop.create_task(call.run(), name=route.method.path)

    def on_ended(self, event: events.Ended) -> None:
        if (stream := self.streams.get(event.stream_id)) is not None:
            stream.on_over()

    def on_reset(self, event: events.Reset) -> None:
        if (call := self._forget(event.stream_id)) is not None:
            call.task.cancel()

    def on_unreadable(self, event: events.Unreadable) -> None:
        status = CallStatus(event.status, event.text, b"")
        if (call := self.calls.get(event.stream_id)) is not None:
            self._cut_short(call, status)

    def on_drained(self, event: events.Drained) -> None:
        self.shared.on_drained()

    def on_lost(self, failure: ReplogError) -> None:
        self.shared.on_drained()
        for stream_id in list(self.calls):
            self.on_reset(events.Reset(stream_id, 0, failure.message))
