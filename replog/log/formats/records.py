"""Decodes records (2.2): for lookups by timestamp and for dumps, never in appends and fetches."""

from collections.abc import Iterator
from typing import NamedTuple

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader
from replog.log.formats.compression import decompress
from replog.log.offsets import Buffer

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
    cursor = _Cursor(data, 0, len(data))
    log_append_time = header.attributes & LOG_APPEND_TIME
    for _ in range(header.records_count):
        record = _decode(cursor.part(cursor.varint()), header)
        yield record._replace(timestamp=header.max_timestamp) if log_append_time else record
    if cursor.left:
        raise InvalidRecord(f"{cursor.left} bytes follow the {header.records_count} records of a batch")


class _Cursor:
    """A bounded walk over bytes; every step checks what is left."""

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self._data = data
        self._position = position
        self._end = end

    @property
    def left(self) -> int:
        return self._end - self._position

    def varint(self) -> int:
        """Read a zigzag varint of at most 10 bytes (2.2)."""
        value = shift = 0
        for position in range(self._position, min(self._end, self._position + 10)):
            byte = self._data[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._position = position + 1
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise InvalidRecord("a varint is cut short or longer than 10 bytes")

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise InvalidRecord(f"a field of {size} bytes does not fit the {self.left} that are left")
        self._position += size
        return self._data[self._position - size : self._position]

    def nullable(self) -> bytes | None:
        size = self.varint()
        return None if size == -1 else self.take(size)

    def part(self, size: int) -> "_Cursor":
        """Return a walk over the next `size` bytes alone."""
        start = self._position
        self.take(size)
        return _Cursor(self._data, start, start + size)


def _decode(cursor: _Cursor, batch: BatchHeader) -> LogRecord:
    cursor.take(1)  # attributes: unused
    timestamp = batch.base_timestamp + cursor.varint()
    offset = batch.base_offset + cursor.varint()
    if not batch.base_offset <= offset <= batch.last_offset or not -(2**63) <= timestamp < 2**63:
        raise InvalidRecord(
            f"offset {offset}, timestamp {timestamp}: no record of batch {batch.base_offset} to {batch.last_offset}"
        )
    key = cursor.nullable()
    value = cursor.nullable()
    count = cursor.varint()
    if not 0 <= count <= min(cursor.left, MAX_HEADERS):
        raise InvalidRecord(f"record {offset} announces {count} headers in {cursor.left} bytes")
    headers = tuple(_decode_header(cursor) for _ in range(count))
    if cursor.left:
        raise InvalidRecord(f"record {offset} has {cursor.left} bytes after its headers")
    return LogRecord(offset, timestamp, key, value, headers)


def _decode_header(cursor: _Cursor) -> tuple[str, bytes | None]:
    key = cursor.take(cursor.varint())
    try:
        name = key.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRecord(f"header key {key[:40]!r} is not UTF-8") from error
    return name, cursor.nullable()
