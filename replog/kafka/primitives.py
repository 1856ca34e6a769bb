"""Compiled functions of the codec call these: they read and write lengths and tags, and keep bounds."""

from collections.abc import Sequence
from struct import pack, unpack_from  # noqa: F401 compiled functions call them
from typing import Never

from replog.kafka.errors import BadFrame
from replog.log.formats.varint import unsigned
from replog.log.offsets import Buffer

MAX_MEMORY = 8 << 20  # bytes that objects of one frame may take: they are at most some 100,000
SPARE_MEMORY = 1 << 20  # bytes that they may take, apart from 8 times the frame
TAG_BYTES = 160
_MAX_TEXT = (1 << 15) - 1
BYTES = [bytes([value]) for value in range(128)]
new = tuple.__new__
_LARGE = 4096  # bytes that are not worth a copy


def memory(size: int) -> int:
    """Return how much memory the objects of a frame may take."""
    return min(MAX_MEMORY, SPARE_MEMORY + 8 * size)


def uvarint(data: Buffer, at: int) -> tuple[int, int]:
    """Read a number in at most five bytes; return it and its end."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise BadFrame("a number has more than five bytes")


def long_text(size: int, room: int) -> int:
    """Return the memory that is left after a string of more than 127 bytes."""
    if size > _MAX_TEXT + 1:
        raise BadFrame(f"a string has {size} bytes; at most {_MAX_TEXT}")
    return room - 4 * size if room >= 4 * size else too_many("bytes of strings", size)


def read_tags(data: Buffer, at: int, room: int) -> tuple[dict[int, tuple[int, int]], int, int]:
    """Return where the contents of tags begin and end, the end of all, and the memory that is left."""
    count, at = uvarint(data, at)
    room -= count * TAG_BYTES
    if room < 0:
        too_many("tags", count)
    places = {}
    for _ in range(count):
        tag, at = uvarint(data, at)
        size, at = uvarint(data, at)
        places[tag] = at, at + size
        at += size
    return places, at, room


def no_null(what: str) -> Never:
    raise BadFrame(f"{what} may not be null")


def too_many(what: str, count: int) -> Never:
    raise BadFrame(f"{count} of {what}: more than the frame has, or may have")


def put(out: list[Buffer], large: list[int], value: Buffer | Sequence[Buffer] | None, flexible: bool) -> None:
    """Add bytes, or pieces of them, and their length; to `large` the places of those that are not to be copied."""
    pieces = () if value is None else (value,) if isinstance(value, (memoryview, bytes, bytearray)) else value
    size = -1 if value is None else sum(map(len, pieces))
    out.append(unsigned(size + 1) if flexible else pack(">i", size))
    for piece in pieces:
        if len(piece) >= _LARGE:
            large.append(len(out))
        out.append(piece)


def gather(out: list[Buffer], large: list[int]) -> list[Buffer]:
    """Join what is small between what is large."""
    joined: list[Buffer] = []
    start = 0
    for at in large:
        joined += (b"".join(out[start:at]), out[at])
        start = at + 1
    return [piece for piece in (*joined, b"".join(out[start:])) if piece]


def tags(*fields: tuple[int, bytes | None]) -> bytes:
    """Return tagged fields: those that are not None."""
    given = [(tag, data) for tag, data in fields if data is not None]
    return b"".join([unsigned(len(given)), *(unsigned(tag) + unsigned(len(data)) + data for tag, data in given)])
