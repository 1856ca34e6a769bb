"""The streams of a connection: the open ones, the closed ones, and how they end (RFC 9113 5.1)."""

from typing import Literal

from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.events import Drained, Event, Opened
from replog.rpc.http2.protocol.frames import (
    ENABLE_PUSH,
    GOAWAY,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    MAX_STREAM,
    NO_ERROR,
    PREFACE,
    SETTINGS,
    ConnectionFailure,
    frame,
    pack_settings,
    reset_frame,
)
from replog.rpc.http2.protocol.inflow import Inflow
from replog.rpc.http2.protocol.outflow import Outflow
from replog.rpc.http2.protocol.stream import CLOSED, IDLE, LOCAL_END, NEXT, RESET_SENT, Stream

_REMEMBERED = 5000  # reset streams, at least: frames for them may still be on the way


class Streams:
    """The part of a `Connection` that knows its streams."""

    def __init__(self, side: Literal["client", "server"], bounds: Bounds) -> None:
        self.client = side == "client"
        self.bounds = bounds
        self.now_ms = 0
        self.pending: list[Event] = []  # the events that `events` would return
        self.emit = self.pending.append
        self.streams: dict[int, Stream] = {}
        self.outflow = Outflow(self.streams, self.emit, self._sent_end)
        self.write = self.outflow.write
        own = {ENABLE_PUSH: 0} if self.client else {MAX_CONCURRENT_STREAMS: bounds.max_streams}
        sizes = {INITIAL_WINDOW_SIZE: bounds.window, MAX_FRAME_SIZE: bounds.max_frame}
        settings = pack_settings(own | sizes | {MAX_HEADER_LIST_SIZE: bounds.header_list})
        self.write((PREFACE if self.client else b"") + frame(SETTINGS, 0, 0, settings))
        self.inflow = Inflow(bounds, self.streams, self.emit, self.write)
        self.next_number = 1  # a client's next stream
        self.last_peer = 0  # the client's newest stream, at a server
        self.allowed = 0  # streams that the server takes at once: none until its SETTINGS say so
        self.usable = True  # False for good after a failure, a GOAWAY in either direction, or the last stream number
        self.last_taken = MAX_STREAM  # the limit of the last GOAWAY that this side sent
        self._asked = False  # `can_open` has been false, and `Opened` is due
        self._reset: dict[int, int] = {}  # streams that were reset lately: RESET_SENT or RESET_RECEIVED
        self._reset_before: dict[int, int] = {}  # the older ones

    @property
    def can_open(self) -> bool:
        """A client's: True if `open` may be called now. If not, but `usable`, `Opened` follows later.

        The server's SETTINGS have to come first."""
        can = self.usable and len(self.streams) < self.allowed
        self._asked = not can
        return can

    def may_open(self) -> None:
        """Report it if there is room for another stream."""
        if self._asked and self.can_open:
            self.emit(Opened())

    def begin(self, number: int) -> Stream:
        stream = self.streams[number] = Stream(number, self.outflow.initial_window, self.bounds.window)
        return stream

    def state_of(self, number: int) -> int:
        """Return the state of a stream that is not open."""
        if number % 2 == 0 or (number >= self.next_number if self.client else number > self.last_peer):
            return IDLE
        if number > self.last_taken:
            return RESET_SENT  # a GOAWAY did it
        return self._reset.get(number) or self._reset_before.get(number, CLOSED)

    # -- ends

    def peer_ends(self, stream: Stream) -> None:
        stream.remote_end()
        if stream.state == CLOSED:
            self.close(stream, False)
        elif self.client:  # the server has answered, and reads no more
            self.write_reset(stream.number, NO_ERROR)
            self.close(stream, False)

    def _sent_end(self, stream: Stream) -> None:
        stream.state = NEXT[stream.state, LOCAL_END]
        if stream.state == CLOSED:
            self.close(stream, False)
        elif not self.client:
            self.reset_stream(stream, NO_ERROR)

    def reset_stream(self, stream: Stream, code: int) -> None:
        self.write_reset(stream.number, code)
        self.close(stream, True)

    def write_reset(self, number: int, code: int) -> None:
        self.write(reset_frame(number, code))
        self.remember_reset(number, RESET_SENT)

    def remember_reset(self, number: int, state: int) -> None:
        if len(self._reset) == _REMEMBERED:
            self._reset_before, self._reset = self._reset, {}
        self._reset[number] = state

    def close(self, stream: Stream, was_reset: bool) -> None:
        del self.streams[stream.number]
        self.inflow.closed(stream, was_reset)
        if stream.queue:
            self.outflow.drop(stream)
        if self._asked:
            self.may_open()
        self.may_be_drained()

    def may_be_drained(self) -> None:
        if not self.usable and not self.streams:
            self.emit(Drained())

    # -- the end of all

    def write_go_away(self, last: int, code: int, text: str) -> None:
        self.usable = False
        self.last_taken = last
        payload = last.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode()[:1000]
        self.write(frame(GOAWAY, 0, 0, payload))

    def fail(self, failure: ConnectionFailure) -> None:
        for stream in self.streams.values():
            self.outflow.drop(stream)
        self.streams.clear()
        self.write_go_away(self.last_peer, failure.code, failure.text)
