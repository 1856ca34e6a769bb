"""Frames of HTTP/2: their bytes, and the cutting of received bytes into them (RFC 9113 4 and 6)."""

import struct
from typing import Protocol

from replog.log.offsets import Buffer

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES, PREFIX_BYTES = 9, 5  # a frame's header; a gRPC message's prefix
MIN_MAX_FRAME, MAX_MAX_FRAME = 1 << 14, (1 << 24) - 1
MAX_WINDOW = MAX_STREAM = (1 << 31) - 1
DEFAULT_WINDOW = 65_535

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, WITH_PRIORITY = 0x4, 0x8, 0x20

# settings
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(1, 6)
MAX_HEADER_LIST_SIZE = 6

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED = range(6)
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM = range(6, 12)

_SMALL = 4096  # smaller slices are cheaper copied

HEADER = struct.Struct(">BHBBL")
PREFIX = struct.Struct(">BL")  # a gRPC message's: 1 if it is compressed, and its size
WHOLE_MESSAGE = struct.Struct(">BHBBLBL")  # the header of a DATA frame that is one whole message, and its prefix
_WINDOW_UPDATE = struct.Struct(">BHBBLL")
_SETTING = struct.Struct(">HL")


class ConnectionFailure(Exception):
    """A peer's fault that ends the connection, with this code of RFC 9113 7."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def frame_header(length: int, kind: int, flags: int, stream: int) -> bytes:
    return HEADER.pack(length >> 16, length & 0xFFFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return frame_header(len(payload), kind, flags, stream) + payload


def window_update(stream: int, increment: int) -> bytes:
    return _WINDOW_UPDATE.pack(0, 4, WINDOW_UPDATE, 0, stream, increment)


def reset_frame(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def header_frames(stream: int, block: bytes, end: bool, max_frame: int) -> bytes:
    """Return HEADERS, and CONTINUATION for the part that is larger than a frame may be."""
    flags = END_STREAM if end else 0
    if len(block) <= max_frame:
        return frame_header(len(block), HEADERS, flags | END_HEADERS, stream) + block
    frames = [frame(HEADERS, flags, stream, block[:max_frame])]
    for start in range(max_frame, len(block), max_frame):
        last = start + max_frame >= len(block)
        frames.append(frame(CONTINUATION, END_HEADERS if last else 0, stream, block[start : start + max_frame]))
    return b"".join(frames)


def pack_settings(values: dict[int, int]) -> bytes:
    return b"".join(_SETTING.pack(name, value) for name, value in values.items())


def parse_settings(payload: Buffer, from_server: bool) -> list[tuple[int, int]]:
    """Return the settings in their order, also unknown ones (RFC 9113 6.5.2). Raises ConnectionFailure."""
    if len(payload) % _SETTING.size:
        raise ConnectionFailure(FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes, which is no multiple of 6")
    settings: list[tuple[int, int]] = list(_SETTING.iter_unpack(payload))
    for name, value in settings:
        if name == INITIAL_WINDOW_SIZE and value > MAX_WINDOW:
            raise ConnectionFailure(FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE {value} is over {MAX_WINDOW}")
        if (name == MAX_FRAME_SIZE and not MIN_MAX_FRAME <= value <= MAX_MAX_FRAME) or (
            name == ENABLE_PUSH and value > (0 if from_server else 1)
        ):
            raise ConnectionFailure(PROTOCOL_ERROR, f"setting {name} may not be {value}")
    return settings


def unpadded(flags: int, payload: Buffer) -> Buffer:
    """Return the payload of a DATA or HEADERS frame without its padding (RFC 9113 6.1)."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFailure(PROTOCOL_ERROR, f"padding does not fit into a frame of {len(payload)} bytes")
    return payload[1 : len(payload) - payload[0]]


class FrameHandler(Protocol):
    def on_data(self, stream: int, flags: int, payload: Buffer) -> None:
        """A whole DATA frame. Its payload is valid during the call, like everywhere here."""

    def on_data_begins(self, stream: int, flags: int, length: int) -> None:
        """A DATA frame without padding, whose payload comes in pieces."""

    def on_data_piece(self, piece: Buffer, last: bool) -> None: ...

    def on_block(self, stream: int, flags: int, block: bytes) -> None:
        """A whole header block, with the flags of its HEADERS."""

    def on_frame(self, kind: int, flags: int, stream: int, payload: Buffer) -> None: ...


class FrameReader:
    """Cuts bytes into frames, and joins header blocks. A DATA frame is passed on as it arrives; any other is collected,
    up to `max_frame`."""

    ANY, FIRST_SETTINGS = 0, -1

    def __init__(self, handler: FrameHandler, max_frame: int, max_header_block: int, max_continuations: int) -> None:
        self._handler = handler
        self._on_data = handler.on_data
        self._max_frame = max_frame
        self._max_header_block = max_header_block
        self._max_continuations = max_continuations
        self._block = bytearray()  # a header block so far
        self._block_flags = 0
        self._continuations = 0
        self.begun = bytearray()  # a frame that is neither complete nor passed on
        self.data_left = 0  # bytes of a DATA frame that have yet to arrive
        self.expected = self.FIRST_SETTINGS  # or the stream whose header block has to continue

    def feed(self, data: Buffer) -> None:
        """Cut `data`. Raises ConnectionFailure, also the handler's."""
        position, end = 0, len(data)
        data = bytes(data) if end <= _SMALL else memoryview(data)
        while position < end:
            if self.data_left:
                piece = data[position : position + self.data_left]
                position += len(piece)
                self.data_left -= len(piece)
                self._handler.on_data_piece(piece, not self.data_left)
            elif self.begun or end - position < HEADER_BYTES:
                position += self._collect(data[position : position + self._needed()])
            else:
                high, low, kind, flags, stream = HEADER.unpack_from(data, position)
                length = high << 16 | low
                stream &= MAX_STREAM
                if length > MIN_MAX_FRAME or self.expected:
                    self._check(length, kind, flags, stream)
                start = position + HEADER_BYTES
                position = start + length
                if position <= end:
                    if kind == DATA:
                        self._on_data(stream, flags, data[start:position])
                    else:
                        self._pass_on(kind, flags, stream, data[start:position])
                else:
                    position = start
                    self._begin(data[start - HEADER_BYTES : start], length, kind, flags, stream)

    def _check(self, length: int, kind: int, flags: int, stream: int) -> None:
        most = self._max_header_block if kind in (HEADERS, CONTINUATION) else self._max_frame
        if length > most:
            code = FRAME_SIZE_ERROR if length > self._max_frame else ENHANCE_YOUR_CALM
            raise ConnectionFailure(code, f"a frame of type {kind} has {length} bytes; at most {most} are taken")
        if self.expected == self.FIRST_SETTINGS:
            if kind != SETTINGS or flags & ACK:
                raise ConnectionFailure(PROTOCOL_ERROR, f"the first frame is of type {kind}; it has to be SETTINGS")
            self.expected = self.ANY
        elif self.expected and (kind != CONTINUATION or stream != self.expected):
            raise ConnectionFailure(
                PROTOCOL_ERROR,
                f"a frame of type {kind} on stream {stream} came inside of the header block of stream {self.expected}",
            )

    def _begin(self, header: Buffer, length: int, kind: int, flags: int, stream: int) -> None:
        if kind == DATA and not flags & PADDED:
            self._handler.on_data_begins(stream, flags, length)
            self.data_left = length
        else:
            self.begun += header

    def _needed(self) -> int:
        """Return the number of bytes that complete the begun header or, after it, the frame."""
        begun = self.begun
        if len(begun) < HEADER_BYTES:
            return HEADER_BYTES - len(begun)
        return HEADER_BYTES + (begun[0] << 16 | begun[1] << 8 | begun[2]) - len(begun)

    def _collect(self, piece: Buffer) -> int:
        begun = self.begun
        in_header = len(begun) < HEADER_BYTES
        begun += piece
        if len(begun) < HEADER_BYTES:
            return len(piece)
        high, low, kind, flags, stream = HEADER.unpack_from(begun)
        length = high << 16 | low
        stream &= MAX_STREAM
        if in_header:
            self._check(length, kind, flags, stream)
            if length and kind == DATA and not flags & PADDED:
                begun.clear()
                self._begin(b"", length, kind, flags, stream)
                return len(piece)
        if len(begun) == HEADER_BYTES + length:
            payload = bytes(begun[HEADER_BYTES:])
            begun.clear()
            self._pass_on(kind, flags, stream, payload)
        return len(piece)

    def _pass_on(self, kind: int, flags: int, stream: int, payload: Buffer) -> None:
        if kind == DATA:
            self._on_data(stream, flags, payload)
        elif kind == HEADERS:
            self._on_headers(flags, stream, payload)
        elif kind == CONTINUATION:
            self._on_continuation(flags, stream, payload)
        else:
            self._handler.on_frame(kind, flags, stream, payload)

    def _on_headers(self, flags: int, stream: int, payload: Buffer) -> None:
        if not stream:
            raise ConnectionFailure(PROTOCOL_ERROR, "HEADERS came on stream 0")
        payload = unpadded(flags, payload)
        if flags & WITH_PRIORITY:
            if len(payload) < 5:
                raise ConnectionFailure(FRAME_SIZE_ERROR, "a HEADERS frame is too short for its priority")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._handler.on_block(stream, flags, bytes(payload))
        else:
            self._block = bytearray(payload)
            self._block_flags = flags
            self._continuations = 0
            self.expected = stream

    def _on_continuation(self, flags: int, stream: int, payload: Buffer) -> None:
        if not self.expected:
            raise ConnectionFailure(PROTOCOL_ERROR, f"CONTINUATION on stream {stream} continues nothing")
        self._continuations += 1
        self._block += payload
        if self._continuations > self._max_continuations or len(self._block) > self._max_header_block:
            most = f"{self._max_continuations} CONTINUATION frames or {self._max_header_block} bytes"
            raise ConnectionFailure(ENHANCE_YOUR_CALM, f"a header block of over {most}")
        if flags & END_HEADERS:
            self.expected = self.ANY
            self._handler.on_block(stream, self._block_flags, bytes(self._block))
