"""Records (2.2): walks over the uncompressed bytes of a batch. Appends and fetches never look at them, except at the
keys of compacted topics."""

from collections.abc import Iterator
from typing import NamedTuple

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader
from replog.log.formats.compression import decompress
from replog.log.formats.varint import read_varint, varint
from replog.log.offsets import Buffer

NULL = 1  # a null key or value has this size: -1 in zigzag
MAX_RECORDS = 100_000  # a broker looks through no larger batch: nothing else happens there meanwhile
MAX_HEADERS = 1 << 20  # one record's: two bytes can make a header, which takes a hundred times as much memory


class LogRecord(NamedTuple):
    """One record, with absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def iterate_records(buffer: Buffer, header: BatchHeader, position: int = 0) -> Iterator[LogRecord]:
    """Yield the records of the whole batch at `position` (RB-3, RB-4). Raises InvalidRecord if they do not decode."""
    payload = bytes(memoryview(buffer)[position + HEADER_SIZE : position + header.size])
    data = decompress(header.attributes & CODEC_MASK, payload)
    for record in slice_records(data, header.records_count):
        timestamp, offset = header.base_timestamp + record.timestamp_delta, header.base_offset + record.offset_delta
        if not header.base_offset <= offset <= header.last_offset or not -(2**63) <= timestamp < 2**63:
            trouble = f"offset {offset}, timestamp {timestamp}"
            raise InvalidRecord(f"{trouble}: no record of batch {header.base_offset} to {header.last_offset}")
        if header.attributes & LOG_APPEND_TIME:
            timestamp = header.max_timestamp
        try:
            value, at = _field(data, record.after_key, record.end)
            yield LogRecord(offset, timestamp, record.key, value, tuple(_headers(data, at, record.end)))
        except IndexError:
            raise InvalidRecord(f"record {offset} is cut short") from None


def _field(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Return a field that may be null, and its end. Raises IndexError or InvalidRecord."""
    size, position = read_varint(data, position)
    if size == NULL:
        return None, position
    after = position + (size >> 1)
    if size & 1 or after > end:
        raise InvalidRecord(f"a field of {(size >> 1) ^ -(size & 1)} bytes does not fit the {end - position} left")
    return data[position:after], after


def _headers(data: bytes, position: int, end: int) -> Iterator[tuple[str, bytes | None]]:
    count, position = read_varint(data, position)
    if count & 1 or count >> 1 > min(end - position, MAX_HEADERS):
        raise InvalidRecord(f"a record announces {(count >> 1) ^ -(count & 1)} headers in {end - position} bytes")
    for _ in range(count >> 1):
        key, position = _field(data, position, end)
        value, position = _field(data, position, end)
        if key is None:
            raise InvalidRecord("a header has no key")
        try:
            yield key.decode(), value
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"header key {key[:40]!r} is not UTF-8") from error
    if position != end:
        raise InvalidRecord(f"a record has {end - position} bytes after its headers")


class RecordSlice(NamedTuple):
    """One record in the uncompressed bytes of its batch: `data[start:end]`."""

    start: int
    end: int
    timestamp_delta: int
    after_timestamp: int  # the position of the offset delta and all that follows
    offset_delta: int
    key: bytes | None
    after_key: int  # the position of the value's size
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
                length, position = read_varint(data, start)
            end = position + (length >> 1)
            if wanted is not None and not wanted[index]:
                start = end
                continue
            time, after_timestamp = data[position + 1], position + 2
            if time >= 0x80:
                time, after_timestamp = read_varint(data, position + 1)
            delta, position = data[after_timestamp], after_timestamp + 1
            if delta >= 0x80:
                delta, position = read_varint(data, after_timestamp)
            key, key_size, position = None, data[position], position + 1
            if key_size >= 0x80:
                key_size, position = read_varint(data, position - 1)
            if not key_size & 1:
                start_of_key, position = position, position + (key_size >> 1)
                key = data[start_of_key:position]
            after_key = position
            value_size, position = data[position], position + 1
            if value_size >= 0x80:
                value_size, position = read_varint(data, after_key)
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
        yield new(
            RecordSlice, (start, end, timestamp_delta, after_timestamp, offset_delta, key, after_key, is_tombstone)
        )
        start = end
    if start != size:
        raise InvalidRecord(f"{size - start} bytes follow the {count} records of a batch")


def with_timestamp(data: Buffer, record: RecordSlice, timestamp_delta: int) -> bytes:
    """Return the record with another timestamp delta. Its attributes are zero in this format."""
    body = b"\0" + varint(timestamp_delta) + bytes(data[record.after_timestamp : record.end])
    return varint(len(body)) + body
