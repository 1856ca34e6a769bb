"""Compiled functions of the codec call these: they read and write lengths and tags, and keep bounds."""

from collections.abc import Sequence
from typing import Never

from replog.kafka.errors import BadFrame
from replog.log.formats.varint import unsigned
from replog.log.offsets import Buffer

MAX_MEMORY = 8 << 20  # bytes that the objects of one frame may take: at most some 100,000, in some 50 ms
SPARE_MEMORY = 1 << 20  # a small frame may take so much, and 8 times its size
TAG_COST = 64
BYTES = [bytes([value]) for value in range(128)]
_MAX_TEXT = (1 << 15) - 1
_LARGE = 4096  # bytes that are not worth a copy


def memory(size: int) -> int:
    """Return how much memory the objects of a frame may take."""
    return min(MAX_MEMORY, SPARE_MEMORY + 8 * size)


def uvarint(data: Buffer, at: int) -> tuple[int, int]:
    """Read a number of 32 bits, in at most five bytes; return it and its end."""
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
    return room - 4 * size if room >= 4 * size else too_much("a string", size)


def skip_tags(data: Buffer, at: int, room: int) -> tuple[int, int]:
    """Return where tags that nobody knows end, and the memory that is left."""
    count, at = uvarint(data, at)
    room -= count * TAG_COST
    if room < 0:
        too_much("tags", count)
    for _ in range(count):
        _, at = uvarint(data, at)
        size, at = uvarint(data, at)
        at += size
    return at, room


def no_null(what: str) -> Never:
    raise BadFrame(f"{what} may not be null")


def too_much(what: str, count: int) -> Never:
    raise BadFrame(f"{count} of {what}: more than the frame has, or may have")


def pieces(value: Buffer | Sequence[Buffer] | None) -> tuple[Sequence[Buffer], int]:
    """Return bytes in pieces, and how many they are: -1 for None."""
    if value is None:
        return (), -1
    if isinstance(value, (memoryview, bytes, bytearray)):
        return (value,), len(value)
    return value, sum(map(len, value))


def put(out: list[Buffer], large: list[int], parts: Sequence[Buffer]) -> None:
    """Add bytes to `out`, and to `large` where those are that are not to be copied."""
    for part in parts:
        if len(part) >= _LARGE:
            large.append(len(out))
        out.append(part)


def gather(out: list[Buffer], large: list[int]) -> list[Buffer]:
    """Join what is small between what is large."""
    joined: list[Buffer] = []
    start = 0
    for at in large:
        if start < at:
            joined.append(b"".join(out[start:at]))
        joined.append(out[at])
        start = at + 1
    if start < len(out):
        joined.append(b"".join(out[start:]))
    return joined


def tags(*fields: tuple[int, bytes | None]) -> bytes:
    """Return tagged fields: those that are not None."""
    given = [(tag, content) for tag, content in fields if content is not None]
    return b"".join([unsigned(len(given)), *(unsigned(tag) + unsigned(len(data)) + data for tag, data in given)])
