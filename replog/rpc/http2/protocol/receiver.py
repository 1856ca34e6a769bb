"""Handles each frame of the peer (RFC 9113 5 and 6)."""

from collections.abc import Callable
from typing import Literal

from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.bounds import Bounds, Meter
from replog.rpc.http2.protocol.events import Ended, GoAway, Headers, Message, Reset, Trailers
from replog.rpc.http2.protocol.frames import (
    ACK,
    DATA,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_STREAM,
    PADDED,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_UPDATE,
    ConnectionFailure,
    FrameReader,
    frame,
    parse_settings,
    unpadded,
)
from replog.rpc.http2.protocol.hpack import REQUEST, RESPONSE, TRAILERS, HeaderDecoder, Wanted
from replog.rpc.http2.protocol.outflow import MAX_SENT_FRAME
from replog.rpc.http2.protocol.partial import LITTLE
from replog.rpc.http2.protocol.stream import (
    AWAIT_HEADERS,
    CONNECTION_ERROR,
    HANDLE,
    REACTIONS,
    RESET_AGAIN,
    RESET_RECEIVED,
    RESET_SENT,
    STREAM_ERROR,
    UNOPENED,
    Stream,
)
from replog.rpc.http2.protocol.streams import Streams

PING_DATA, DRAIN_DATA = b"replog-p", b"replog-d"  # the keepalive's, and that of the one behind a GOAWAY
_SIZES = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_OF_CONNECTION, _OF_STREAM = (SETTINGS, PING, GOAWAY), (PRIORITY, RST_STREAM)


_new = tuple.__new__  # a named tuple's own takes two calls


class Receiver(Streams):
    """The part of a `Connection` that handles frames. Every method may raise ConnectionFailure."""

    def __init__(self, side: Literal["client", "server"], bounds: Bounds) -> None:
        super().__init__(side, bounds)
        self.frames = FrameReader(self, bounds.max_frame, bounds.header_block, bounds.continuations)
        self._decoder = HeaderDecoder(bounds)
        self._data_number = self._data_flags = self._data_size = 0  # the last DATA frame's, which may come in pieces
        self._resets = Meter("streams that were reset", bounds.resets)
        self._refusals = Meter("streams over the limit", bounds.refusals)
        self._empty = Meter("empty DATA frames", bounds.empty_data)
        self._updates = Meter("WINDOW_UPDATE frames", bounds.window_updates)
        self._ignored = Meter("frames without a use", bounds.ignored)
        self._pings = Meter("PING frames", bounds.pings)
        self._settings = Meter("SETTINGS frames", bounds.settings)
        self._has_settings = False  # the peer's SETTINGS have arrived
        self._handlers: dict[int, Callable[[int, int, Buffer], None]] = {
            PRIORITY: self._on_ignored,
            RST_STREAM: self._on_reset,
            SETTINGS: self._on_settings,
            PUSH_PROMISE: self._on_push_promise,
            PING: self._on_ping,
            GOAWAY: self._on_go_away,
            WINDOW_UPDATE: self._on_window_update,
        }

    def on_frame(self, kind: int, flags: int, number: int, payload: Buffer) -> None:
        size = _SIZES.get(kind)
        if size is not None and len(payload) != size:
            raise ConnectionFailure(FRAME_SIZE_ERROR, f"a frame of type {kind} has {len(payload)} bytes, not {size}")
        if (number and kind in _OF_CONNECTION) or (not number and kind in _OF_STREAM):
            raise ConnectionFailure(PROTOCOL_ERROR, f"a frame of type {kind} came on stream {number}")
        self._handlers.get(kind, self._on_ignored)(flags, number, payload)

    # -- DATA

    def on_data(self, number: int, flags: int, payload: Buffer) -> None:
        stream = self.streams.get(number)
        if stream is not None and flags <= END_STREAM:
            message = self.inflow.take_whole(stream, payload)
            if message is not None:
                self.emit(_new(Message, (number, message)))
                if flags & END_STREAM:
                    self._end(stream)
                return
        stream = self._data_begins(number, len(payload))
        if flags & PADDED:
            whole = len(payload)
            payload = unpadded(flags, payload)  # wrong padding ends the connection, even on a stream that is gone
            if stream is not None:
                self.inflow.padding(stream, whole - len(payload))
        self._data(stream, flags, payload, True)

    def on_data_begins(self, number: int, flags: int, length: int) -> None:
        self._data_begins(number, length)
        self._data_flags = flags

    def on_data_piece(self, piece: Buffer, last: bool) -> None:
        self._data(self.streams.get(self._data_number), self._data_flags, piece, last)

    def place(self) -> memoryview | None:
        """Return the place for the next bytes, instead of `feed`: in the message that they should belong to."""
        stream, frames = self.streams.get(self._data_number), self.frames
        if stream is None or stream.partial is None or stream.content_left is not None:
            return None
        if frames.data_left:
            return stream.partial.place(frames.data_left, begins=False)
        if frames.begun or self._data_size < LITTLE:
            return None
        return stream.partial.place(self._data_size, begins=True)  # most often a frame is as large as the one before

    def place_filled(self, size: int) -> None:
        """Handle `size` bytes that have been put into the last `place`."""
        frames, stream = self.frames, self.streams[self._data_number]
        partial = stream.partial
        assert partial is not None
        begins = not frames.data_left
        if begins:
            header = partial.give_back(size)
            size -= len(header)
            frames.feed(header)
            if not frames.data_left or self.streams.get(self._data_number) is not stream:
                frames.feed(partial.landed(0, size))  # the frame is not the expected one
                return
        here = min(size, frames.data_left, partial.missing)
        frames.data_left -= here
        behind = self.inflow.landed(stream, here, size - here)
        if not frames.data_left:
            self._data_ends(stream, self._data_flags)
        if behind:
            frames.feed(behind)

    def _data_begins(self, number: int, size: int) -> Stream | None:
        """Count a frame against the windows. Return its stream, if that takes it."""
        self._data_number, self._data_size = number, size
        stream = self._taker(number, DATA, "DATA")
        if stream is None:
            self.inflow.arrives(None, size)
            if not size:
                self._empty.count(self.now_ms)
            return None
        if not self.inflow.arrives(stream, size):
            self._break_off(stream, FLOW_CONTROL_ERROR, f"{size} bytes of DATA are more than the stream's window has")
            return None
        if stream.reading == AWAIT_HEADERS:
            self._break_off(stream, PROTOCOL_ERROR, "DATA came before the headers of the answer")
            return None
        return stream

    def _data(self, stream: Stream | None, flags: int, payload: Buffer, last: bool) -> None:
        if stream is not None and stream.content_left is not None:
            stream.content_left -= len(payload)
            if stream.content_left < 0:
                self._break_off(stream, PROTOCOL_ERROR, "more DATA came than content-length said")
                stream = None
        if stream is not None:
            self.inflow.take_in(stream, payload)
        if not last:
            return
        self._data_ends(stream, flags)
        if not (payload or flags & END_STREAM or stream is None):
            self._empty.count(self.now_ms)

    def _data_ends(self, stream: Stream | None, flags: int) -> None:
        self.inflow.frame_done()
        if flags & END_STREAM and stream is not None and stream.number in self.streams:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        """The peer ends its stream, without trailers that anybody wants."""
        if stream.content_left:
            self._break_off(stream, PROTOCOL_ERROR, "less DATA came than content-length said")
            return
        if self.inflow.ended(stream):
            self.emit(Ended(stream.number))
        self.peer_ends(stream)

    # -- headers

    def on_block(self, number: int, flags: int, block: bytes) -> None:
        end = bool(flags & END_STREAM)
        if not self.client and number > self.last_peer and number % 2:
            self._on_call(number, block, end)
            return
        stream = self.streams.get(number)
        awaited = stream is not None and stream.reading == AWAIT_HEADERS
        decoded = self._decoder.decode(block, RESPONSE if awaited else TRAILERS)
        stream = self._taker(number, HEADERS, "HEADERS")
        if stream is None:
            return
        if decoded.code:
            self._break_off(stream, decoded.code, decoded.problem)
        elif awaited:
            self._on_answer(stream, decoded.fields, decoded.wanted, end)
        elif not end:
            self._break_off(stream, PROTOCOL_ERROR, "trailers do not end the stream")
        elif not self.client:
            self._end(stream)
        elif stream.content_left:
            self._break_off(stream, PROTOCOL_ERROR, "less DATA came than content-length said")
        else:
            self.inflow.ended(stream)
            self.emit(Trailers(number, decoded.fields))
            self.peer_ends(stream)

    def _on_call(self, number: int, block: bytes, end: bool) -> None:
        decoded = self._decoder.decode(block, REQUEST)
        self.last_peer = number
        if number > self.last_taken:  # the client knows of the GOAWAY, and that it was not handled
            self._ignored.count(self.now_ms)
        elif len(self.streams) >= self.bounds.max_streams:
            self._refusals.count(self.now_ms)
            self.write_reset(number, REFUSED_STREAM)
        elif decoded.code or (end and decoded.wanted.content_length):
            self._resets.count(self.now_ms)
            self.write_reset(number, decoded.code or PROTOCOL_ERROR)
        else:
            stream = self.begin(number)
            stream.has_headers(decoded.wanted)
            if end:
                stream.remote_end()
            self.emit(Headers(number, decoded.fields, end))

    def _on_answer(self, stream: Stream, fields: list[tuple[bytes, bytes]], wanted: Wanted, end: bool) -> None:
        if end and (wanted.informational or wanted.content_length):
            self._break_off(stream, PROTOCOL_ERROR, "an answer ends before it is complete")
            return
        if wanted.informational:
            self._ignored.count(self.now_ms)
            return
        stream.has_headers(wanted)
        self.emit(Headers(stream.number, fields, end))
        if end:
            self.peer_ends(stream)

    # -- streams that end

    def _break_off(self, stream: Stream, code: int, text: str) -> None:
        """Reset a stream for a fault of the peer."""
        self._resets.count(self.now_ms)
        self.emit(Reset(stream.number, code, text))
        self.reset_stream(stream, code)

    def _taker(self, number: int, kind: int, name: str) -> Stream | None:
        """Return the stream if it takes a frame of this kind now; otherwise do what `REACTIONS` says."""
        stream = self.streams.get(number)
        state = self.state_of(number) if stream is None else stream.state
        reaction = REACTIONS[kind][state]
        if reaction == HANDLE:
            return stream
        if reaction == UNOPENED:
            raise ConnectionFailure(PROTOCOL_ERROR, f"{name} came on stream {number}, which nobody opened")
        if reaction == CONNECTION_ERROR:
            raise ConnectionFailure(STREAM_CLOSED, f"{name} came on stream {number}, which has ended")
        if reaction == STREAM_ERROR:
            assert stream is not None
            self._break_off(stream, STREAM_CLOSED, f"{name} came after the end of the stream")
        elif reaction == RESET_AGAIN:
            self._resets.count(self.now_ms)
            self.write_reset(number, STREAM_CLOSED)
        return None

    def _on_reset(self, flags: int, number: int, payload: Buffer) -> None:
        stream = self._taker(number, RST_STREAM, "RST_STREAM")
        if stream is None:
            self._ignored.count(self.now_ms)
            return
        if not self.client:
            self._resets.count(self.now_ms)
        self.emit(Reset(number, int.from_bytes(payload, "big"), ""))
        self.remember_reset(number, RESET_RECEIVED)
        self.close(stream, True)

    # -- the connection itself

    def _on_settings(self, flags: int, number: int, payload: Buffer) -> None:
        if flags & ACK:
            if payload:
                raise ConnectionFailure(FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS has a payload")
            self._ignored.count(self.now_ms)
            return
        self._settings.count(self.now_ms)
        settings = dict(parse_settings(payload, self.client))
        if MAX_FRAME_SIZE in settings:
            self.outflow.max_frame = min(settings[MAX_FRAME_SIZE], MAX_SENT_FRAME)
        if INITIAL_WINDOW_SIZE in settings:
            self.outflow.initial_window_becomes(settings[INITIAL_WINDOW_SIZE])
        if MAX_CONCURRENT_STREAMS in settings or not self._has_settings:
            self.allowed = settings.get(MAX_CONCURRENT_STREAMS, MAX_STREAM)
            self.may_open()
        self._has_settings = True
        self.write(frame(SETTINGS, ACK, 0))

    def _on_ping(self, flags: int, number: int, payload: Buffer) -> None:
        if not flags & ACK:
            self._pings.count(self.now_ms)
            self.write(frame(PING, ACK, 0, bytes(payload)))
        elif payload == DRAIN_DATA and self.last_taken == MAX_STREAM and not self.usable:
            self.write_go_away(self.last_peer, 0, "")

    def _on_go_away(self, flags: int, number: int, payload: Buffer) -> None:
        if len(payload) < 8:
            raise ConnectionFailure(FRAME_SIZE_ERROR, f"GOAWAY has {len(payload)} bytes; at least 8 are needed")
        self._ignored.count(self.now_ms)
        last, code = int.from_bytes(payload[:4], "big") & MAX_STREAM, int.from_bytes(payload[4:8], "big")
        self.usable = False
        self.emit(GoAway(last, code, bytes(payload[8:1008]).decode("utf-8", "replace")))
        self.may_be_drained()
        if self.client:
            for stream in [stream for stream in self.streams.values() if stream.number > last]:
                self.emit(Reset(stream.number, REFUSED_STREAM, ""))
                self.remember_reset(stream.number, RESET_SENT)
                self.close(stream, True)

    # -- other frames

    def _on_window_update(self, flags: int, number: int, payload: Buffer) -> None:
        self._updates.count(self.now_ms)
        increment = int.from_bytes(payload, "big") & MAX_STREAM
        if not number:
            if not increment:
                raise ConnectionFailure(PROTOCOL_ERROR, "WINDOW_UPDATE of the connection by 0")
            self.outflow.window_grows(None, increment)
        elif (stream := self._taker(number, WINDOW_UPDATE, "WINDOW_UPDATE")) is not None:
            if not increment:
                self._break_off(stream, PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
            elif not self.outflow.window_grows(stream, increment):
                self._break_off(stream, FLOW_CONTROL_ERROR, "WINDOW_UPDATE makes the window too large")

    def _on_push_promise(self, flags: int, number: int, payload: Buffer) -> None:
        raise ConnectionFailure(PROTOCOL_ERROR, "PUSH_PROMISE came, and nobody pushes here")

    def _on_ignored(self, flags: int, number: int, payload: Buffer) -> None:
        self._ignored.count(self.now_ms)
