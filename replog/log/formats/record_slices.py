"""Records as slices of their batch's bytes: enough to check and copy them, without decoding what is not needed."""

from collections.abc import Iterator
from typing import NamedTuple

from replog.log.errors import InvalidRecord
from replog.log.formats.varint import varint
from replog.log.offsets import Buffer

NULL = 1  # a null key or value has this size: -1 in zigzag
MAX_RECORDS = 100_000  # a broker looks through no larger batch: nothing else happens there meanwhile


class RecordSlice(NamedTuple):
    """One record in the uncompressed bytes of its batch: `data[start:end]`."""

    start: int
    end: int
    timestamp_delta: int
    after_timestamp: int  # the position of the offset delta and all that follows
    offset_delta: int
    key: bytes | None
    is_tombstone: bool  # its value is null


def slice_records(data: bytes, count: int, wanted: Buffer | None = None) -> Iterator[RecordSlice]:
    """Yield the `count` records that `data`, uncompressed, must hold. Raises InvalidRecord if it does not (RB-3).

    `wanted` has a byte for each record; if that is zero, only the record's length is read. The cleaner takes every
    record of a log through here. So numbers of one byte, which nearly all are, are read in place, and a slice is made
    without the Python of a named tuple."""
    start, size, new = 0, len(data), tuple.__new__
    for index in range(count):
        try:
            length, position = data[start], start + 1
            if length >= 0x80:
                length, position = _longer(data, position, length)
            end = position + (length >> 1)
            if wanted is not None and not wanted[index]:
                start = end
                continue
            time, after_timestamp = data[position + 1], position + 2
            if time >= 0x80:
                time, after_timestamp = _longer(data, after_timestamp, time)
            delta, position = data[after_timestamp], after_timestamp + 1
            if delta >= 0x80:
                delta, position = _longer(data, position, delta)
            key, key_size, position = None, data[position], position + 1
            if key_size >= 0x80:
                key_size, position = _longer(data, position, key_size)
            if not key_size & 1:
                start_of_key, position = position, position + (key_size >> 1)
                key = data[start_of_key:position]
            value_size, position = data[position], position + 1
            if value_size >= 0x80:
                value_size, position = _longer(data, position, value_size)
        except IndexError:
            raise InvalidRecord(f"record {index} of {count} is cut short") from None
        is_tombstone = value_size == NULL
        if not is_tombstone:
            position += value_size >> 1
        # an odd number is a negative size, which only a null key or value has
        fits = position <= end <= size and not length & 1
        if not fits or (key is None and key_size != NULL) or (value_size & 1 and not is_tombstone):
            raise InvalidRecord(f"record {index} of {count}: its lengths do not fit the {size - start} bytes left")
        timestamp_delta, offset_delta = (time >> 1) ^ -(time & 1), (delta >> 1) ^ -(delta & 1)
        yield new(RecordSlice, (start, end, timestamp_delta, after_timestamp, offset_delta, key, is_tombstone))
        start = end
    if start != size:
        raise InvalidRecord(f"{size - start} bytes follow the {count} records of a batch")


def with_timestamp(data: Buffer, record: RecordSlice, timestamp_delta: int) -> bytes:
    """Return the record with another timestamp delta. Its attributes are zero in this format."""
    body = b"\0" + varint(timestamp_delta) + bytes(data[record.after_timestamp : record.end])
    return varint(len(body)) + body


def _longer(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Read a varint of 2 to 10 bytes (2.2) that begins with the byte `first`; return it, still in zigzag, and its end.

    Raises IndexError if it is longer, or ends with `data`."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return first - 0x80 + (byte << 7), position
    value = first - 0x80 + ((byte - 0x80) << 7)
    for shift in range(14, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise IndexError
