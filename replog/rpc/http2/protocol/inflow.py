"""Received messages: cut out of DATA, held until they are taken, and the windows that keep this in bounds.

The window of the connection is its memory: `Bounds.memory` is what the peer may still send plus what is held here, of
incomplete messages and of those that nobody has taken. A stream's window is smaller. A message larger than that gets
more credit, all at once, when it has been admitted: when what it lacks fits into the memory beside what others were
promised and a window for every open stream, or, if no other is admitted, when it just fits. The others wait, and the
one that lacks least is next. All this is for speed; what keeps the connection going is that, when only incomplete
messages are left and none of them can go on, one is refused: of those that were not admitted the one that lacks
most."""

from collections.abc import Callable, Iterator

from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.events import Event, Message, Unreadable
from replog.rpc.http2.protocol.frames import (
    DEFAULT_WINDOW,
    FLOW_CONTROL_ERROR,
    PREFIX,
    PREFIX_BYTES,
    ConnectionFailure,
    window_update,
)
from replog.rpc.http2.protocol.partial import Partial
from replog.rpc.http2.protocol.stream import CUT_MESSAGES, DROP, Stream

_MESSAGE = 64  # bytes that a message costs besides its own
_LARGE = 4 << 10  # larger messages may be changed by their readers: a log stamps its batches in place

RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 8, 12, 13  # gRPC's numbers


class Inflow:
    def __init__(
        self, bounds: Bounds, streams: dict[int, Stream], emit: Callable[[Event], None], write: Callable[[bytes], None]
    ) -> None:
        self._streams = streams
        self._emit = emit
        self._write = write
        self._max_message = bounds.max_message
        self._max_untaken = bounds.untaken
        self._memory = bounds.connection_memory
        self._window = bounds.window
        self._batch = min(1 << 20, self._memory // 2)  # credit that is worth a frame
        self._room = self._memory  # the peer may still send so much, even all at once
        self._credit = 0  # credit that the peer does not know yet
        self._untaken = 0
        self._promised = 0  # bytes that admitted messages lack
        self._reserved = 0  # bytes of memory for messages that have not arrived
        self.places: dict[int, Stream] = {}  # their message has its memory, and may be read into it
        self._waiting: dict[int, Stream] = {}  # their message is larger than the window, and not admitted
        self.now_ms = 0  # the time of the last read
        self._late: dict[int, tuple[int, int]] = {}  # untaken messages, and bytes, of streams that are closed
        write(window_update(0, self._memory - DEFAULT_WINDOW))

    # -- received data

    def arrives(self, stream: Stream | None, size: int) -> bool:
        """Count a DATA frame of `size` bytes. True if the stream's window allows it. Raises ConnectionFailure."""
        if size > self._room:
            raise ConnectionFailure(
                FLOW_CONTROL_ERROR, f"{size} bytes of DATA came; the connection's window has {self._room}"
            )
        self._room -= size
        if stream is not None:
            stream.room -= size
            if stream.reading != DROP:
                if not stream.held:
                    stream.since_ms = self.now_ms
                stream.held += size
                if stream.partial is not None:
                    self._count_reserved(stream, stream.partial)
                return stream.room >= 0
        self._release(size)
        return stream is None or stream.room >= 0

    def frame_done(self) -> None:
        """All of a DATA frame has been taken in."""
        if self._waiting or not self._room:
            self._relieve()

    def padding(self, stream: Stream, size: int) -> None:
        """Count `size` bytes of a frame as no part of a message."""
        if stream.reading != DROP:
            stream.held -= size
            if stream.partial is not None:
                self._count_reserved(stream, stream.partial)
            self._release(size)
            self._credit_stream(stream)

    def take_whole(self, stream: Stream, data: Buffer) -> bytes | bytearray | None:
        """Return the message that a DATA frame is, if it is a whole one without anything special: most are. Otherwise
        return None, and nothing is counted."""
        size = len(data)
        if (
            stream.reading != CUT_MESSAGES
            or stream.partial is not None
            or stream.prefix
            or not PREFIX_BYTES <= size <= stream.room
            or size >= self._room
            or self._waiting
        ):
            return None
        flag, length = PREFIX.unpack_from(data)
        if flag or length != size - PREFIX_BYTES or length > self._max_message or self._untaken >= self._max_untaken:
            return None
        self._room -= size
        stream.room -= size
        if not stream.held:
            stream.since_ms = self.now_ms
        stream.held += size
        stream.untaken_bytes += size
        stream.untaken += 1
        self._untaken += 1
        payload = data[PREFIX_BYTES:]
        return bytearray(payload) if size > _LARGE else bytes(payload)

    def take_in(self, stream: Stream, data: Buffer) -> None:
        """Cut messages out of the data."""
        position, end = 0, len(data)
        while position < end and stream.reading != DROP:
            partial = stream.partial
            if partial is not None:
                piece = data[position : position + partial.missing]
                position += len(piece)
                self._add(stream, partial, piece)
                continue
            if stream.prefix or end - position < PREFIX_BYTES:
                begun = len(stream.prefix)
                stream.prefix += bytes(data[position : position + PREFIX_BYTES - begun])
                position += len(stream.prefix) - begun
                if len(stream.prefix) < PREFIX_BYTES:
                    return
                flag, size = PREFIX.unpack(stream.prefix)
                stream.prefix = b""
            else:
                flag, size = PREFIX.unpack_from(data, position)
                position += PREFIX_BYTES
            if flag or size > self._max_message:
                self._refuse_prefix(stream, flag, size)
            elif size <= end - position:
                payload = data[position : position + size]
                self._complete(stream, bytearray(payload) if size > _LARGE else bytes(payload))
                position += size
            else:
                partial = stream.partial = Partial(size)
                self._add(stream, partial, data[position:end])
                position = end
                self._begin(stream, partial)

    def _add(self, stream: Stream, partial: Partial, piece: Buffer) -> None:
        size = len(piece)
        if partial.should_reserve(size) and partial.missing <= self._room + self._credit - self._reserved:
            partial.reserve()
            self.places[stream.number] = stream
            self._count_reserved(stream, partial)
        partial.add(piece)
        self._got_on(stream, partial, size)

    def landed(self, stream: Stream, size: int, behind: int) -> bytes:
        """`size` bytes of a message are in their place. Return those behind them."""
        partial = stream.partial
        assert partial is not None
        rest = partial.landed(size, behind)
        self._got_on(stream, partial, size)
        return rest

    def _got_on(self, stream: Stream, partial: Partial, size: int) -> None:
        if stream.admitted:
            self._promised -= size
        if not partial.missing:
            self._forget_partial(stream)
            self._complete(stream, partial.payload())

    def _complete(self, stream: Stream, payload: bytes | bytearray) -> None:
        stream.untaken += 1
        stream.untaken_bytes += len(payload) + PREFIX_BYTES
        self._untaken += 1
        self._emit(Message(stream.number, payload))
        if self._untaken > self._max_untaken:
            self.refuse(stream, RESOURCE_EXHAUSTED, f"{self._untaken} messages of this connection wait to be read")

    def _refuse_prefix(self, stream: Stream, flag: int, size: int) -> None:
        if flag == 0:
            text = f"a message of {size} bytes; at most {self._max_message} are taken"
            self.refuse(stream, RESOURCE_EXHAUSTED, text)
        elif flag == 1 and stream.compressed:
            self.refuse(stream, UNIMPLEMENTED, "a message is compressed; send it with grpc-encoding: identity")
        else:
            self.refuse(stream, INTERNAL, f"a message's prefix begins with {flag}, and no grpc-encoding was announced")

    # -- memory

    @property
    def held(self) -> int:
        """Bytes of messages that are incomplete or untaken, and of the memory reserved for the missing ones."""
        return self._memory - self._room - self._credit + self._untaken * _MESSAGE + self._reserved

    def holdings(self) -> Iterator[tuple[int, int, int]]:
        """Yield each stream that holds any, with their number of bytes, and the time when it last advanced."""
        for stream in self._streams.values():
            if stream.held:
                reserved = 0 if stream.partial is None else stream.partial.reserved
                yield stream.number, stream.held + stream.untaken * _MESSAGE + reserved, stream.since_ms

    def _count_reserved(self, stream: Stream, partial: Partial) -> None:
        if partial.whole is not None:
            reserved = max(0, partial.size + PREFIX_BYTES - (stream.held - stream.untaken_bytes))
            self._reserved += reserved - partial.reserved
            partial.reserved = reserved

    def _begin(self, stream: Stream, partial: Partial) -> None:
        """The first bytes of a message are here: it may need more credit than the window."""
        if partial.size + PREFIX_BYTES > self._window:
            self._waiting[stream.number] = stream
            self._relieve()
        else:
            self._credit_stream(stream)

    def _relieve(self) -> None:
        """Admit what fits. With nothing left to take, refuse the message that holds up all others."""
        while self._waiting:
            stream = min(self._waiting.values(), key=_missing)
            windows = len(self._streams) * self._window if self._promised else 0
            if self._room + self._credit - self._promised - windows < _missing(stream):
                break
            del self._waiting[stream.number]
            stream.admitted = True
            self._promised += _missing(stream)
            self._credit_stream(stream)
        if self._untaken:
            return
        while not self._room + self._credit or (self._waiting and not self._promised):
            incomplete = [stream for stream in self._streams.values() if stream.held]
            full = not self._room + self._credit
            if not incomplete or (not full and any(stream.number not in self._waiting for stream in incomplete)):
                return
            text = f"incomplete messages fill the {self._memory} bytes of this connection; send fewer at once"
            victim = max(incomplete, key=lambda stream: (not stream.admitted, _missing(stream)))
            self.refuse(victim, RESOURCE_EXHAUSTED, text)

    def consumed(self, number: int, size: int) -> bool:
        """A reader has taken a message of `size` bytes: give the peer credit. True if a frame or an event may be due.

        Call it once for every `Message`, also of streams that have ended. After a reset, by either side, it does
        nothing."""
        size += PREFIX_BYTES
        stream = self._streams.get(number)
        if stream is None:
            if number not in self._late:
                return False
            count, held = self._late.pop(number)
            if count > 1:
                self._late[number] = (count - 1, held - size)
            self._untaken -= 1
            return self._release(size)
        if not stream.untaken:
            return False
        stream.untaken -= 1
        stream.untaken_bytes -= size
        stream.held -= size
        stream.since_ms = self.now_ms
        self._untaken -= 1
        self._credit += size
        due = self._waiting or self._credit >= self._batch or self._room < self._batch
        if due:
            self._release(0)
        if (stream.room + stream.held) * 2 <= self._window or stream.partial is not None:
            self._credit_stream(stream)
            return True
        return bool(due)

    def refuse(self, stream: Stream, status: int, text: str) -> None:
        """Take no more messages of this stream, except those that are whole."""
        stream.reading = DROP
        self._drop_partial(stream)
        self._emit(Unreadable(stream.number, status, text))

    def ended(self, stream: Stream) -> bool:
        """The peer sends no more. Return True if the last message is whole."""
        if stream.prefix or stream.partial is not None:
            self.refuse(stream, INTERNAL, "the stream ended inside of a message")
            return False
        return stream.reading != DROP

    def closed(self, stream: Stream, reset: bool) -> None:
        """The stream is gone. After a reset nobody reads its messages."""
        if stream.held:
            self._drop_partial(stream)
        if not stream.untaken:
            return
        if reset:
            self._untaken -= stream.untaken
            self._release(stream.untaken_bytes)
        else:
            self._late[stream.number] = (stream.untaken, stream.untaken_bytes)

    def _drop_partial(self, stream: Stream) -> None:
        if stream.partial is not None:
            self._reserved -= stream.partial.reserved
        if stream.admitted:
            self._promised -= _missing(stream)
        self._forget_partial(stream)
        size = stream.held - stream.untaken_bytes
        stream.held -= size
        self._release(size)

    def _forget_partial(self, stream: Stream) -> None:
        self._waiting.pop(stream.number, None)
        self.places.pop(stream.number, None)
        stream.partial = None
        stream.prefix = b""
        stream.admitted = False

    # -- credit

    def _release(self, size: int) -> bool:
        """Give credit back. Return True if a frame or an event may have come of it."""
        self._credit += size
        due = self._credit >= self._batch or (self._credit > 0 and self._room < self._batch)
        if due:
            self._write(window_update(0, self._credit))
            self._room += self._credit
            self._credit = 0
        if self._waiting:
            self._relieve()
            return True
        return due

    def _credit_stream(self, stream: Stream) -> None:
        """Give credit for what is no longer held, in halves of the window, or as a message needs it to go on."""
        if stream.reading == DROP:
            return
        window, partial = self._window, stream.partial
        credit = window - stream.room - stream.held
        if partial is not None and stream.admitted:
            credit += partial.size
        if credit * 2 >= window or (credit > 0 and partial is not None and stream.room < partial.missing):
            stream.room += credit
            self._write(window_update(stream.number, credit))


def _missing(stream: Stream) -> int:
    return 0 if stream.partial is None else stream.partial.missing
