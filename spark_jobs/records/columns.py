"""Records sections as Arrow columns: once it is known where records start, all else is done for all of them at once."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import LOG_APPEND_TIME, BatchHeader
from replog.log.formats.records import MAX_HEADERS
from replog.log.offsets import Buffer
from spark_jobs.records.schema import arrow_schema

Longs = np.ndarray[Any, np.dtype[np.int64]]
Octets = np.ndarray[Any, np.dtype[np.uint8]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

MAX_TIMESTAMP_MS = (2**63 - 1) // 1000  # Spark counts microseconds
_MAX_VARINT_BYTES = 10
_MAX_SIZE_BYTES = 5  # of a record's length
_SHORT_RUN = 32  # records of one size in a row, from which on it is quicker to look for them than to go one by one
_LONG_RUN = 1024  # and how far to look: in vain, where sizes change that often


class Field(NamedTuple):
    """Where a field of each record lies; null ones have no bytes."""

    starts: Longs
    ends: Longs
    nulls: Mask


class Columns(NamedTuple):
    offset: Longs
    timestamp: Longs  # ms
    timestamp_type: Longs
    key: pa.BinaryArray
    value: pa.BinaryArray
    headers: pa.ListArray | None


def decode_columns(batches: list[tuple[BatchHeader, Buffer]], *, headers: bool) -> Columns:
    """Every record of the batches, whose records sections are uncompressed. Raises InvalidRecord (RB-3, RB-4)."""
    data = b"".join(section for _, section in batches)
    counts = [header.records_count for header, _ in batches]

    def of_batch(values: Iterable[int]) -> Longs:
        return np.repeat(np.fromiter(values, np.int64, len(counts)), counts)

    edges = _edges(data, counts, [len(section) for _, section in batches])
    ends = edges[1:]
    records = _Cursor(data, edges[:-1], ends)
    sizes = records.varint()
    _require(sizes == ends - records.at, "the sign of a record's size")
    records.at += 1  # attributes: unused
    timestamp = of_batch(header.base_timestamp for header, _ in batches) + records.varint()
    delta = records.varint()
    _require((delta >= 0) & (delta <= of_batch(header.last_offset_delta for header, _ in batches)), "an offset")
    offset = of_batch(header.base_offset for header, _ in batches) + delta
    _require(np.diff(offset) > 0, "the order of offsets")
    key, value = records.nullable(), records.nullable()
    header_counts = records.varint()
    _require((header_counts >= 0) & (header_counts <= MAX_HEADERS), "the number of headers")
    header_column = _headers(data, records, header_counts) if headers else None
    _require((records.at == ends) | (not headers and header_counts > 0), "the size of a record")
    by_leader = of_batch((header.attributes & LOG_APPEND_TIME) // LOG_APPEND_TIME for header, _ in batches)
    timestamp = np.where(by_leader, of_batch(header.max_timestamp for header, _ in batches), timestamp)
    _require((timestamp >= -MAX_TIMESTAMP_MS) & (timestamp <= MAX_TIMESTAMP_MS), "a timestamp, which Spark cannot hold")
    return Columns(offset, timestamp, by_leader, _binary(data, key), _binary(data, value), header_column)


def _require(holds: Mask, what: str) -> None:
    if not holds.all():
        raise InvalidRecord(f"{what} is wrong in {np.count_nonzero(~holds)} of {len(holds)} records")


def _edges(data: bytes, counts: list[int], sizes: list[int]) -> Longs:
    """Where each record starts, and the last one ends.

    Only a record's size tells where the next one starts: this has to go from one to the next, but where many in a row
    have the same size.
    """
    octets = np.frombuffer(data, np.uint8)
    edges = [np.zeros(1, np.int64)]
    position = batch_end = 0
    for count, size in zip(counts, sizes, strict=True):
        batch_end += size
        left = count
        try:
            while left >= _SHORT_RUN:
                ends = _run(data, octets[:batch_end], position)[:left]
                if len(ends) < _SHORT_RUN:
                    break
                edges.append(ends)
                position, left = int(ends[-1]), left - len(ends)
            if left:
                edges.append(np.fromiter(_walk(data, position, left), np.int64))
                position = int(edges[-1][-1])
        except IndexError:
            position = batch_end + 1
        if position != batch_end:
            raise InvalidRecord(f"{count} records do not fill the {size} bytes of their batch")
    return np.concatenate(edges)


def _run(data: bytes, octets: Octets, start: int) -> Longs:
    """The ends of the record at `start` and of those behind it that say the same size, as far as it looks."""
    size, body = _size(data, start)
    step = body + size - start
    rows = octets[start : start + _LONG_RUN * step]
    rows = rows[: len(rows) // step * step].reshape(-1, step)
    same = np.ones(len(rows), np.bool_)
    for column in range(body - start):
        same &= rows[:, column] == octets[start + column]
    run = len(rows) if same.all() else int(same.argmin())
    return np.arange(start + step, start + step * run + 1, step)


def _walk(data: bytes, position: int, count: int) -> Iterator[int]:
    """The ends of `count` records, of which the first is at `position`."""
    for _ in range(count):
        low = data[position]
        if low < 0x80:
            position += 1 + (low >> 1)
        elif (high := data[position + 1]) < 0x80:  # the usual case, and what this loop's speed is about
            position += 2 + (low - 0x80 >> 1) + (high << 6)
        else:
            size, body = _size(data, position)
            position = body + size
        yield position


def _size(data: bytes, position: int) -> tuple[int, int]:
    """A record's size without its sign, and where the bytes begin that it counts."""
    value = 0
    for number in range(_MAX_SIZE_BYTES):
        byte = data[position + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return value >> 1, position + number + 1
    raise InvalidRecord(f"the size of a record is longer than {_MAX_SIZE_BYTES} bytes")


class _Cursor:
    """A place in each of many records, moved in all of them at once; it never leaves them."""

    def __init__(self, data: bytes, at: Longs, ends: Longs) -> None:
        self._data = np.frombuffer(data or b"\0", np.uint8)
        self.at = at
        self.ends = ends

    def varint(self) -> Longs:
        """A zigzag varint of at most 10 bytes (2.2)."""
        byte = self._data.take(self.at, mode="clip")
        value = (byte & 0x7F).astype(np.uint64)
        self.at = self.at + 1
        more = byte >= 0x80
        for shift in range(7, 7 * _MAX_VARINT_BYTES, 7):
            if not more.any():
                break
            byte = self._data.take(self.at, mode="clip") * more
            value |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            self.at = self.at + more
            more = byte >= 0x80
        _require(~more & (self.at <= self.ends), "a varint")
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

    def nullable(self) -> Field:
        """A length, -1 for null, and so many bytes."""
        sizes = self.varint()
        _require((sizes >= -1) & (sizes <= self.ends - self.at), "the size of a field")
        starts = self.at
        self.at = starts + np.maximum(sizes, 0)
        return Field(starts, self.at, sizes < 0)

    def of(self, rows: Longs) -> "_Cursor":
        """The same places in these records alone."""
        part = _Cursor(b"", self.at[rows], self.ends[rows])
        part._data = self._data
        return part


def _binary(data: bytes, field: Field) -> pa.BinaryArray:
    """The field's bytes, copied out: as every second element of an array that has what lies between as the others."""
    count = len(field.starts)
    if field.nulls.all():
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2], bounds[1::2] = field.starts, field.ends
    bounds[-1] = field.ends[-1]
    everything = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return everything.take(pa.array(np.arange(0, 2 * count, 2), mask=field.nulls))


def _headers(data: bytes, records: _Cursor, counts: Longs) -> pa.ListArray:
    """A list of key and value for each record, null where there is none; the cursor moves behind them."""
    rows: list[Longs] = []
    keys: list[Field] = []
    values: list[Field] = []
    turn, having = 0, np.flatnonzero(counts)
    while len(having):
        part = records.of(having)
        keys.append(part.nullable())
        values.append(part.nullable())
        rows.append(having)
        records.at[having] = part.at
        turn += 1
        having = having[counts[having] > turn]
    kind = arrow_schema(True).field("headers").type
    if not rows:
        return pa.nulls(len(counts), kind)
    order = np.argsort(np.concatenate(rows), kind="stable")
    key, value = (
        Field(*(np.concatenate(part)[order] for part in zip(*fields, strict=True))) for fields in (keys, values)
    )
    _require(~key.nulls, "the key of a header")
    try:
        names = _binary(data, key).cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidRecord("the key of a header is not UTF-8") from None
    pairs = pa.StructArray.from_arrays([names, _binary(data, value)], fields=list(kind.value_type))
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=kind, mask=pa.array(counts == 0))
