"""Records as slices of their batch's bytes: enough to judge and to copy them, without decoding what is not needed."""

from collections.abc import Iterator
from typing import NamedTuple

from replog.log.errors import InvalidRecord

MAX_RECORDS = 100_000  # of one batch that a broker looks through: nothing else happens there meanwhile


class RecordSlice(NamedTuple):
    """One record in the uncompressed bytes of its batch; `data[start:end]` is all of it."""

    start: int
    end: int
    timestamp_delta: int
    after_timestamp: int  # where the offset delta begins: all that follows the timestamp
    offset_delta: int
    key: bytes | None
    is_tombstone: bool  # its value is null


def slice_records(data: bytes, count: int) -> Iterator[RecordSlice]:
    """The `count` records that `data`, uncompressed, must hold. Raises InvalidRecord where they do not (RB-3)."""
    start, size = 0, len(data)
    for index in range(count):
        try:
            length, position = _varint(data, start)
            end = position + length
            timestamp_delta, after_timestamp = _varint(data, position + 1)
            offset_delta, position = _varint(data, after_timestamp)
            key_size, position = _varint(data, position)
            key = data[position : position + key_size] if key_size >= 0 else None
            position += max(key_size, 0)
            value_size, position = _varint(data, position)
        except IndexError:
            raise InvalidRecord(f"record {index} of {count} is cut short") from None
        if length < 0 or end > size or key_size < -1 or value_size < -1 or position + max(value_size, 0) > end:
            raise InvalidRecord(f"record {index} of {count}: its lengths do not fit the {size - start} bytes left")
        yield RecordSlice(start, end, timestamp_delta, after_timestamp, offset_delta, key, value_size < 0)
        start = end
    if start != size:
        raise InvalidRecord(f"{size - start} bytes follow the {count} records of a batch")


def with_timestamp(data: bytes, record: RecordSlice, timestamp_delta: int) -> bytes:
    """The record with another timestamp delta; its attributes, which follow the length, are zero in this format."""
    body = b"\0" + _encode(timestamp_delta) + data[record.after_timestamp : record.end]
    return _encode(len(body)) + body


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint of at most 10 bytes (2.2), and the position after it. Raises IndexError at the end of `data`."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, shift = byte & 0x7F, 7
    while shift < 70:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    raise IndexError


def _encode(value: int) -> bytes:
    """A zigzag varint of a number of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append((rest & 0x7F) | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
