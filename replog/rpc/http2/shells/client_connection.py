"""The client's side of one connection: it opens calls, as many at once as the server allows."""

import asyncio
import os
import ssl
from collections import deque

from google.rpc import code_pb2

from replog.config.listeners import parse_address
from replog.errors import ErrorCode, ReplogError
from replog.rpc.http2.protocol import events
from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.frames import CANCEL, NO_ERROR, REFUSED_STREAM
from replog.rpc.http2.shells.calls import parse_answer, parse_trailers
from replog.rpc.http2.shells.message_stream import MessageStream
from replog.rpc.http2.shells.reads import Reads
from replog.rpc.http2.shells.socket_connection import SocketConnection
from replog.rpc.http2.shells.socket_shell import CLOSED
from replog.rpc.http2.shells.tls_layer import TlsLayer, explained
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.peer import Role
from replog.rpc.status import CallStatus, from_status
from replog.rpc.tasks import notify_of_forks
from replog.rpc.tls import Tls

SILENCE_S = 5.0  # the silence before a ping, which finds a vanished peer without a request
_NO_WORD = f"{CLOSED} before the server spoke; if it asks for TLS there, set security.protocol=SSL"
_NO_TLS = (
    f"{CLOSED} in the TLS handshake; look at ssl.keystore.location, or if no TLS is spoken there, set "
    "security.protocol=PLAINTEXT"
)


class ClientConnection(SocketConnection):
    def __init__(self, address: str, reads: Reads, tls: Tls | None = None) -> None:
        super().__init__(Connection("client", Bounds(MAX_ANSWER_BYTES)), address, SILENCE_S, reads)
        self._tls = tls
        self._host = parse_address(address)[0].strip("[]")
        self._sealed = tls is not None
        self.why = _NO_WORD if tls is None else _NO_TLS  # replaced once the server has sent something
        self.ready: asyncio.Future[None] = self._loop.create_future()  # set once the server has sent something
        self.untouched = ErrorCode.NETWORK_EXCEPTION.error(
            f"{address} cannot be reached: it takes no more calls on this connection"
        )
        self._waiting: deque[asyncio.Future[None]] = deque()  # they wait for a place among the open streams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._tls is not None:
            self._tls_layer = TlsLayer(self._tls.material.client, self._host)
            self._tls_layer.begin()
            self._send_tls(self._tls_layer.outgoing())
        notify_of_forks(self)
        assert not self.http2.can_open, "`Opened` says when"

    def forked(self) -> None:
        """Keep the parent's connection from anything that the child does, or closes when it ends."""
        if not self.lost:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, self._descriptor, inheritable=False)
            os.close(nowhere)

    def on_open(self, tls_layer: TlsLayer) -> "ClientConnection":
        assert self._tls is not None
        try:
            server = self._tls.accepted(tls_layer.uris() or (), self._host)
            if server.role not in (Role.BROKER, Role.CONTROLLER):
                raise ValueError(f"its certificate is that of a {server.role}, {server.principal}")
        except ValueError as error:
            self.refuse_connection(str(error), tls_layer.close())
        return self

    def on_unsafe(self, error: ssl.SSLError) -> None:
        self.why = explained(error, self._host)

    @property
    def usable(self) -> bool:
        """True if new calls may go here, now or when others have ended."""
        return not self.lost and self.http2.usable

    async def place(self) -> bool:
        """Wait while the server has as many calls as it allows. False if this connection takes no more."""
        while self.usable and not self.http2.can_open:
            place = self._loop.create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                self._next_may_open()
                raise
        return self.usable

    def open(self, headers: events.FieldList) -> MessageStream:
        """Open a call, while there is a place."""
        stream_id = self.http2.open(headers)
        stream = self.streams[stream_id] = MessageStream(self.http2, stream_id, self.write_soon)
        if self._waiting:
            self._next_may_open()
        return stream

    def _next_may_open(self) -> None:
        while self._waiting and (self.http2.can_open or not self.usable):
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                if self.usable:
                    return

    def give_up(self, stream: MessageStream, failure: ReplogError | None = None) -> None:
        """Reset a call that its caller has given up."""
        if self.streams.pop(stream.stream_id, None) is not None:
            stream.give_up(failure)
            self.write()
        else:
            stream.drop()

    def _over(self, stream_id: int, failure: ReplogError | None) -> None:
        if (stream := self.streams.pop(stream_id, None)) is not None:
            stream.on_over(failure)

    def _failed(self, stream_id: int, status: CallStatus) -> None:
        self.http2.reset(stream_id, CANCEL)
        self._over(stream_id, from_status(status, self.peer))

    # -- what arrives

    def on_opened(self, event: events.Opened) -> None:
        if not self.ready.done():
            self.why = CLOSED
            self.ready.set_result(None)
        self._next_may_open()

    def on_headers(self, event: events.Headers) -> None:
        if (wrong := parse_answer(event.headers)) is not None:
            self._failed(event.stream_id, wrong)
        elif event.end:
            self.on_trailers(event)

    def on_trailers(self, event: events.Trailers | events.Headers) -> None:
        status = parse_trailers(event.headers)
        self._over(event.stream_id, None if status is None else from_status(status, self.peer))

    def on_ended(self, event: events.Ended) -> None:
        self._failed(event.stream_id, CallStatus(code_pb2.INTERNAL, "the server ended the call without a status", b""))

    def on_unreadable(self, event: events.Unreadable) -> None:
        self._failed(event.stream_id, CallStatus(event.status, event.text, b""))

    def on_reset(self, event: events.Reset) -> None:
        if event.code == REFUSED_STREAM:
            self._over(event.stream_id, self.untouched)
            return
        code = code_pb2.UNAVAILABLE if event.code in (NO_ERROR, CANCEL) else code_pb2.INTERNAL
        text = event.text or f"the server reset the stream ({event.code})"
        self._failed(event.stream_id, CallStatus(code, text, b""))

    def on_goaway(self, event: events.GoAway) -> None:
        self.why = f"the server is going away: {event.text or 'it stops'}"
        self._next_may_open()

    def on_drained(self, event: events.Drained) -> None:
        self.close()

    def on_lost(self, failure: ReplogError) -> None:
        if not self.ready.done():
            self.ready.set_exception(failure)
            self.ready.exception()  # maybe nobody waits
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            stream.on_over(failure)
        self._next_may_open()
