"""One HTTP/2 connection that carries gRPC, either side: bytes in, events out; calls in, bytes out (RFC 9113).

No socket, clock or loop. A shell does, for each read: `receive`, handle the events, write `to_send`, handle `events`;
and after calls: write `to_send`, handle `events`."""

from typing import Literal

from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.events import Event, Failed, FieldList
from replog.rpc.http2.protocol.frames import (
    MAX_STREAM,
    PING,
    PREFACE,
    PROTOCOL_ERROR,
    ConnectionFailure,
    frame,
    header_frames,
)
from replog.rpc.http2.protocol.hpack import NO_TABLE, encode_fields
from replog.rpc.http2.protocol.receiver import DRAIN_DATA, PING_DATA, Receiver
from replog.rpc.http2.protocol.stream import HALF_CLOSED_LOCAL, LOCAL_END, NEXT


class Connection(Receiver):
    """Streams are known by their number. A call for a stream that is gone does nothing: its event was on the way."""

    def __init__(self, side: Literal["client", "server"], bounds: Bounds) -> None:
        """`to_send` begins with the preface and SETTINGS."""
        super().__init__(side, bounds)
        # calls for each message go straight to the part that does them, and says there what it promises
        self.to_send = self.outflow.to_send
        self.send_message, self.waiting = self.outflow.send_message, self.outflow.waiting
        self.consumed, self.holdings = self.inflow.consumed, self.inflow.holdings
        self.places = self.inflow.places  # the streams whose message may have a `place`
        self.speaks = "HTTP/2 (gRPC)"  # a peer is told so if its first bytes are no preface
        self._preface = PREFACE if side == "server" else b""  # the rest of it that has yet to arrive
        self._table = NO_TABLE  # sent before the first header block
        self._failed = False

    # -- the wire

    def receive(self, data: Buffer, now_ms: int) -> list[Event]:
        """Handle `data`. Never raises for what a peer sends: a wrong connection is a last event, `Failed`.

        Keeps no reference to `data`. `now_ms` is any clock that does not go back; it forgives floods."""
        if not self._failed:
            self.now_ms = self.inflow.now_ms = now_ms
            try:
                self.frames.feed(self._after_preface(data) if self._preface else data)
            except ConnectionFailure as failure:
                self._fails(failure)
        return self.events()

    def landed(self, size: int, now_ms: int) -> list[Event]:
        """Handle `size` bytes that have been put into `place`, as `receive` does."""
        self.now_ms = self.inflow.now_ms = now_ms
        try:
            self.place_filled(size)
        except ConnectionFailure as failure:
            self._fails(failure)
        return self.events()

    def _fails(self, failure: ConnectionFailure) -> None:
        self._failed = True
        self.fail(failure)
        self.emit(Failed(failure.code, failure.text))

    def _after_preface(self, data: Buffer) -> Buffer:
        begin = bytes(data[: len(self._preface)])
        if not self._preface.startswith(begin):
            raise ConnectionFailure(PROTOCOL_ERROR, f"this port speaks {self.speaks}; a peer began with {begin!r}")
        self._preface = self._preface[len(begin) :]
        return data[len(begin) :]

    @property
    def has_to_send(self) -> bool:
        """True if `to_send` returns something now."""
        outflow = self.outflow
        return bool(outflow.frames or (outflow.turns and outflow.window > 0))

    def events(self) -> list[Event]:
        """Return the events of other calls: `Writable` by `to_send`, `Unreadable` by `consumed`, others."""
        events = self.pending[:]
        self.pending.clear()
        return events

    # -- the connection

    @property
    def held(self) -> int:
        """Bytes of messages that are incomplete or untaken; `holdings` returns their streams."""
        return self.inflow.held

    def ping(self) -> None:
        """Send a PING: any answer shows that the peer lives."""
        self.write(frame(PING, 0, 0, PING_DATA))

    def go_away(self, code: int = 0, text: str = "", *, at_once: bool = False) -> None:
        """Take no new streams. Open ones continue.

        A server without an error drains: streams that are on the way here are still served, until the peer knows; not
        if it goes `at_once`: the client may ask them again elsewhere."""
        if self._failed:
            return
        if code or at_once or self.client:
            self.write_go_away(self.last_peer, code, text)
        elif self.usable:
            self.write_go_away(MAX_STREAM, code, text)
            self.write(frame(PING, 0, 0, DRAIN_DATA))

    # -- streams

    def open(self, headers: FieldList, end: bool = False) -> int:
        """Begin a call (client), only while `can_open`; return the stream's number. With `end`, no message follows.

        Raises ValueError for a field that may not be sent, as every call with headers does."""
        number = self.next_number
        block = encode_fields(headers)
        self.next_number = number + 2
        stream = self.begin(number)
        if end:
            stream.state = NEXT[stream.state, LOCAL_END]
        self.write(header_frames(number, self._table + block, end, self.outflow.max_frame))
        self._table = b""
        if self.next_number > MAX_STREAM:
            self.usable = False
        return number

    def send_headers(self, stream: int, headers: FieldList) -> None:
        """Begin to answer (server): `:status`, `content-type` and metadata."""
        block = encode_fields(headers)
        if stream in self.streams:
            self.write(header_frames(stream, self._table + block, False, self.outflow.max_frame))
            self._table = b""

    def end(self, stream: int) -> None:
        """Send no more messages (client), after what waits. `send_message(…, end=True)` saves the frame for this."""
        known = self.streams.get(stream)
        if known is not None and known.state != HALF_CLOSED_LOCAL:
            self.outflow.end(known)

    def send_trailers(self, stream: int, headers: FieldList) -> None:
        """Finish (server), after what waits. Without `send_headers` before, these are all headers of the answer.

        If the client has not ended, a RST_STREAM(NO_ERROR) follows: what it still sends is dropped."""
        block = encode_fields(headers)
        known = self.streams.get(stream)
        if known is not None and known.state != HALF_CLOSED_LOCAL:
            self.outflow.trailers(known, self._table + block)
            self._table = b""

    def reset(self, stream: int, code: int) -> None:
        """Close the stream at once, without an event; what waits is dropped, and messages need not be taken."""
        known = self.streams.get(stream)
        if known is not None:
            self.reset_stream(known, code)
