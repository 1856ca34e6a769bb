"""Handles a peer's frames for the connection itself: SETTINGS, PING, GOAWAY (RFC 9113 6.5, 6.7, 6.8)."""

from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.bounds import Meter
from replog.rpc.http2.protocol.events import GoAway, Pong, Reset
from replog.rpc.http2.protocol.frames import (
    ACK,
    FRAME_SIZE_ERROR,
    MAX_STREAM,
    PING,
    REFUSED_STREAM,
    SETTINGS,
    ConnectionFailure,
    frame,
)
from replog.rpc.http2.protocol.outflow import MAX_SENT_FRAME
from replog.rpc.http2.protocol.settings import (
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    parse_settings,
)
from replog.rpc.http2.protocol.stream import RESET_SENT
from replog.rpc.http2.protocol.streams import Streams

PING_DATA, DRAIN_DATA = b"replog-p", b"replog-d"  # the keepalive's, and that of the one behind a GOAWAY


class Control:
    """Handles frames on stream 0. Every method may raise ConnectionFailure."""

    def __init__(self, streams: Streams, ignored: Meter) -> None:
        self._streams = streams
        self._ignored = ignored
        self._pings = Meter("PING frames", streams.bounds.pings)
        self._settings = Meter("SETTINGS frames", streams.bounds.settings)
        self._has_settings = False  # the peer's SETTINGS have arrived

    def on_settings(self, flags: int, number: int, payload: Buffer) -> None:
        if flags & ACK:
            if payload:
                raise ConnectionFailure(FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS has a payload")
            self._ignored.count(self._streams.now_ms)
            return
        self._settings.count(self._streams.now_ms)
        settings = dict(parse_settings(payload, self._streams.client))
        if MAX_FRAME_SIZE in settings:
            self._streams.outflow.max_frame = min(settings[MAX_FRAME_SIZE], MAX_SENT_FRAME)
        if INITIAL_WINDOW_SIZE in settings:
            self._streams.outflow.initial_window_becomes(settings[INITIAL_WINDOW_SIZE])
        if MAX_CONCURRENT_STREAMS in settings or not self._has_settings:
            self._streams.allowed = settings.get(MAX_CONCURRENT_STREAMS, MAX_STREAM)
            self._streams.may_open()
        self._has_settings = True
        self._streams.write(frame(SETTINGS, ACK, 0))

    def on_ping(self, flags: int, number: int, payload: Buffer) -> None:
        if not flags & ACK:
            self._pings.count(self._streams.now_ms)
            self._streams.write(frame(PING, ACK, 0, bytes(payload)))
        elif payload == PING_DATA:
            self._streams.emit(Pong())
        elif payload == DRAIN_DATA and self._streams.last_taken == MAX_STREAM and not self._streams.usable:
            self._streams.go_away(self._streams.last_peer, 0, "")

    def on_go_away(self, flags: int, number: int, payload: Buffer) -> None:
        if len(payload) < 8:
            raise ConnectionFailure(FRAME_SIZE_ERROR, f"GOAWAY has {len(payload)} bytes; at least 8 are needed")
        self._ignored.count(self._streams.now_ms)
        last, code = int.from_bytes(payload[:4], "big") & MAX_STREAM, int.from_bytes(payload[4:8], "big")
        self._streams.usable = False
        self._streams.emit(GoAway(last, code, bytes(payload[8:1008]).decode("utf-8", "replace")))
        self._streams.may_be_drained()
        if self._streams.client:
            for stream in [stream for stream in self._streams.open.values() if stream.number > last]:
                self._streams.emit(Reset(stream.number, REFUSED_STREAM, ""))
                self._streams.remember_reset(stream.number, RESET_SENT)
                self._streams.close(stream, True)
