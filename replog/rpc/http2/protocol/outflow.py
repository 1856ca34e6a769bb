"""Sends messages through the windows that the peer gave, with streams taking turns."""

from collections import deque
from collections.abc import Callable, Sequence

from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.events import Event, Writable
from replog.rpc.http2.protocol.frames import (
    DATA,
    DEFAULT_WINDOW,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    MAX_WINDOW,
    MIN_MAX_FRAME,
    PREFIX,
    PREFIX_BYTES,
    WHOLE_MESSAGE,
    ConnectionFailure,
    frame_header,
    header_frames,
)
from replog.rpc.http2.protocol.stream import Stream

MAX_SENT_FRAME = 256 << 10  # even to a peer that takes more: after a frame others get their turn
_AHEAD = 1 << 20  # so many bytes of messages are framed before anybody asks for them
_pack_header = WHOLE_MESSAGE.pack


class Outflow:
    def __init__(
        self, streams: dict[int, Stream], emit: Callable[[Event], None], ended: Callable[[Stream], None]
    ) -> None:
        self._streams = streams
        self._emit = emit
        self._ended = ended  # called when END_STREAM has gone out
        self.frames: list[Buffer] = []
        self._size = 0  # bytes of messages in `frames`
        self.turns: deque[Stream] = deque()  # streams with something to send, and a window for it
        self.write = self.frames.append  # adds a frame without flow control
        self.window = DEFAULT_WINDOW  # the connection's
        self.initial_window = DEFAULT_WINDOW  # a new stream's
        self.max_frame = MIN_MAX_FRAME

    def to_send(self, most: int = 1 << 20) -> list[Buffer]:
        """Return the buffers to write now, in order: headers of frames and pieces of messages, not joined.

        With a lot to send, little more than `most` bytes, streams taking turns: ask again once they are written. Empty
        if there is nothing more to write until the peer or a call changes that."""
        while self.turns and self.window > 0 and self._size < most:
            self._send_turn(self.turns.popleft())
        frames = self.frames[:]
        self.frames.clear()
        self._size = 0
        return frames

    def send_message(self, number: int, pieces: Sequence[Buffer], end: bool = False) -> int:
        """Send one gRPC message, joined from `pieces` of bytes, with its prefix; with `end`, the last one (client).

        What the windows do not let through waits, and keeps the pieces. Returns what is `waiting` now."""
        stream = self._streams.get(number)
        if stream is None:
            return 0
        size = PREFIX_BYTES
        for piece in pieces:
            size += len(piece)
        if (
            size <= stream.send_window
            and size <= self.window
            and size <= self.max_frame
            and not self.turns
            and not stream.queue
            and self._size < _AHEAD
        ):
            stream.send_window -= size
            self.window -= size
            self._size += size
            flags = END_STREAM if end else 0
            self.frames.append(_pack_header(size >> 16, size & 0xFFFF, DATA, flags, number, 0, size - PREFIX_BYTES))
            self.frames += pieces
            if end:
                self._ended(stream)
            return 0
        stream.queue.append(PREFIX.pack(0, size - PREFIX_BYTES))
        stream.queue.extend(piece for piece in pieces if len(piece))
        stream.queued += size
        stream.ending = end
        self._wants_turn(stream)
        return stream.queued

    def waiting(self, number: int) -> int:
        """Return the bytes of messages that wait for a window or for `to_send`; 0 for a stream that is gone."""
        stream = self._streams.get(number)
        return 0 if stream is None else stream.queued

    def end(self, stream: Stream) -> None:
        if stream.queue:
            stream.ending = True
        else:
            self.write(frame_header(0, DATA, END_STREAM, stream.number))
            self._ended(stream)

    def trailers(self, stream: Stream, block: bytes) -> None:
        if stream.queue:
            stream.trailers = block
        else:
            self.write(header_frames(stream.number, block, True, self.max_frame))
            self._ended(stream)

    def drop(self, stream: Stream) -> None:
        """Drop what a stream that is gone still had to send."""
        stream.queue.clear()
        stream.queued = 0
        if stream.turn:
            self.turns.remove(stream)

    def window_grows(self, stream: Stream | None, increment: int) -> bool:
        """Apply a WINDOW_UPDATE. Return False if the stream's window is too large. Raises ConnectionFailure."""
        if stream is None:
            self.window += increment
            if self.window > MAX_WINDOW:
                raise ConnectionFailure(FLOW_CONTROL_ERROR, f"the connection's window grew over {MAX_WINDOW}")
            return True
        stream.send_window += increment
        self._wants_turn(stream)
        return stream.send_window <= MAX_WINDOW

    def initial_window_becomes(self, size: int) -> None:
        """Change the windows of all open streams with it; they may become negative (RFC 9113 6.9.2)."""
        change = size - self.initial_window
        self.initial_window = size
        for stream in self._streams.values():
            stream.send_window += change
            if stream.send_window > MAX_WINDOW:
                raise ConnectionFailure(
                    FLOW_CONTROL_ERROR, f"SETTINGS grew the window of stream {stream.number} too far"
                )
            self._wants_turn(stream)

    def _wants_turn(self, stream: Stream) -> None:
        if stream.queue and not stream.turn and stream.send_window > 0:
            stream.turn = True
            self.turns.append(stream)

    def _send_turn(self, stream: Stream) -> None:
        stream.turn = False
        size = min(stream.send_window, self.window, self.max_frame, stream.queued)
        if size <= 0:  # SETTINGS made the window smaller
            return
        stream.send_window -= size
        self.window -= size
        self._size += size
        stream.queued -= size
        last = not stream.queued and stream.ending
        self.frames.append(frame_header(size, DATA, END_STREAM if last else 0, stream.number))
        queue = stream.queue
        while size:
            piece = queue.popleft()
            if len(piece) > size:
                view = memoryview(piece)
                queue.appendleft(view[size:])
                piece = view[:size]
            self.frames.append(piece)
            size -= len(piece)
        if stream.queued:
            self._wants_turn(stream)
            return
        self._emit(Writable(stream.number))
        if last:
            self._ended(stream)
        elif stream.trailers is not None:
            self.trailers(stream, stream.trailers)
