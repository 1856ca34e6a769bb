"""The columns, with the types and nullability of Spark's Kafka source; and records sections decoded into them: it finds
where records start, then handles all of them at once."""

from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import LEAST_RECORD_BYTES, LOG_APPEND_TIME, BatchHeader
from replog.log.formats.records import MAX_HEADERS, NULL
from replog.log.formats.varint import read_varint
from replog.log.offsets import Buffer

Longs = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

_MAX_LONG = 2**63 - 1
_MAX_VARINT_BYTES = 10
_MAX_SIZE_BYTES = 5  # the longest varint of a record's size
_FEW = 64  # so few records are walked faster through their headers, of which one may have a million
_NO_KEY = "the key of a header"


HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def spark_schema(headers: bool) -> StructType:
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    return StructType(fields + [StructField("headers", HEADERS)] * headers)


@cache
def arrow_schema(headers: bool) -> pa.Schema:
    """Return the schema that Spark expects of the source's batches."""
    return to_arrow_schema(spark_schema(headers), timezone="UTC")


class Section(NamedTuple):
    """Records of one batch, uncompressed."""

    header: BatchHeader
    data: Buffer
    records: int
    before: int = 0  # the number of the batch's records before them


class Field(NamedTuple):
    """The place of a field in each record; null ones have no bytes."""

    starts: Longs
    ends: Longs
    nulls: Mask


class Bad(NamedTuple):
    """Records, from offset `first` to `last`, that do not decode: their producer made them so."""

    first: int
    last: int
    reason: str


class Columns(NamedTuple):
    """The records that decode, and those that do not."""

    offset: Longs
    timestamp: Longs  # ms; one of more than 64 bits is `_MAX_LONG`
    timestamp_type: Longs
    key: pa.BinaryArray
    value: pa.BinaryArray
    headers: pa.ListArray | None
    bad: list[Bad]


def decode_columns(sections: Iterable[Section], *, headers: bool) -> Columns:
    """Decode sections. A fault in a record leaves out the record; in records' sizes, the section (RB-3, RB-4)."""
    data, whole, starts, ends, bad = _framed(list(sections))
    counts = [section.records for section in whole]

    def of_batch(values: Iterable[int]) -> Longs:
        return np.repeat(np.fromiter(values, np.int64, len(counts)), counts)

    faults = _Faults(len(ends))
    records = _Cursor(data, starts, ends, faults)
    sizes = records.varint()
    faults.unless(sizes == ends - records.at, "the sign of its size")
    records.at = records.at + 1  # attributes: unused
    base, delta = of_batch(section.header.base_timestamp for section in whole), records.varint()
    timestamp = base + delta
    timestamp[(base ^ timestamp) & (delta ^ timestamp) < 0] = _MAX_LONG  # more than 64 bits
    delta, base = records.varint(), of_batch(section.header.base_offset for section in whole)
    within = (delta >= 0) & (delta <= of_batch(section.header.last_offset_delta for section in whole))
    faults.unless(within, "its offset")
    offset = np.where(within, base + delta, base)
    greatest = np.maximum.accumulate(offset)
    faults.unless(np.append(True, offset[1:] > greatest[:-1])[: len(offset)], "the order of its offset")
    key, value = records.nullable(), records.nullable()
    header_counts = records.varint()
    faults.unless((header_counts >= 0) & (header_counts <= MAX_HEADERS), "the number of its headers")
    header_column = _headers(data, records, np.where(faults.why, 0, header_counts)) if headers else None
    faults.unless((records.at == ends) | (not headers and header_counts > 0), "its size")
    by_leader = of_batch((section.header.attributes & LOG_APPEND_TIME) // LOG_APPEND_TIME for section in whole)
    timestamp = np.where(by_leader, of_batch(section.header.max_timestamp for section in whole), timestamp)
    sound = faults.why == 0
    if not sound.all():
        place = base + np.arange(len(ends)) - np.repeat(np.cumsum([0, *counts[:-1]]), counts)
        place += of_batch(section.before for section in whole)
        place = np.where(within, offset, place)
        wrong = np.flatnonzero(~sound)
        named = zip(place[wrong].tolist(), faults.why[wrong].tolist(), strict=True)
        bad += [Bad(at, at, f"{faults.reasons[why]} is wrong") for at, why in named]
        offset, timestamp, by_leader = offset[sound], timestamp[sound], by_leader[sound]
        key, value = (Field(*(part[sound] for part in field)) for field in (key, value))
        header_column = None if header_column is None else header_column.filter(pa.array(sound))
    return Columns(offset, timestamp, by_leader, _binary(data, key), _binary(data, value), header_column, bad)


class _Faults:
    """The records that cannot be read, each with the first reason that was found."""

    def __init__(self, count: int) -> None:
        self.why: Longs = np.zeros(count, np.int64)  # 0: nothing is wrong
        self.reasons = [""]

    def unless(self, holds: Mask, reason: str, rows: Longs | None = None) -> None:
        """Note `reason` for records where `holds` is False. `rows`: the records that `holds` is of; None: all."""
        if not holds.all():
            wrong = np.flatnonzero(~holds) if rows is None else rows[~holds]
            self.why[wrong[self.why[wrong] == 0]] = len(self.reasons)
            self.reasons.append(reason)


def split(section: Section, size: int) -> Iterator[Section]:
    """Split a section into sections of at most `size` bytes, or of one record."""
    header, data, count, _ = section
    if len(data) <= size:
        yield section
        return
    start = end = first = number = 0
    with suppress(IndexError, InvalidRecord):  # records without a right size stay together, and decoding reports them
        for number, after in enumerate(_walk(bytes(data), 0, count)):
            if after - start > size and number > first:
                yield Section(header, data[start:end], number - first, first)
                start, first = end, number
            end = after
    yield Section(header, data[start:], count - first, first)


def _framed(sections: list[Section]) -> tuple[bytes, list[Section], Longs, Longs, list[Bad]]:
    """Return the sections' bytes, the sections that their records fill, the starts and ends of these records, and the
    records of the other sections."""
    data = b"".join(section.data for section in sections)
    whole: list[Section] = []
    firsts: list[int] = []
    pieces: list[Longs] = [np.zeros(0, np.int64)]
    bad: list[Bad] = []
    end = 0
    for section in sections:
        start, end = end, end + len(section.data)
        try:
            pieces.append(_ends(data, start, end, section.records))
        except InvalidRecord as error:
            header = section.header
            bad.append(Bad(header.base_offset + section.before, header.last_offset, error.message))
        else:
            if section.records:
                whole.append(section)
                firsts.append(start)
    ends = np.concatenate(pieces)
    starts = np.roll(ends, 1)
    starts[np.cumsum([0, *(section.records for section in whole)])[:-1]] = firsts
    return data, whole, starts, ends, bad


def _ends(data: bytes, start: int, end: int, count: int) -> Longs:
    """Return the ends of `count` records, of which the first is at `start`, and the last must end at `end`.

    Only a record's size tells where the next one starts. Raises InvalidRecord."""
    ends = np.zeros(0, np.int64)
    if count * LEAST_RECORD_BYTES <= end - start:
        with suppress(IndexError):
            ends = np.fromiter(_walk(data, start, count), np.int64)
    if len(ends) < count or (ends[-1] if count else start) != end:
        raise InvalidRecord(f"{count} records do not fill the {end - start} bytes of their batch")
    return ends


def _walk(data: bytes, position: int, count: int) -> Iterator[int]:
    """Yield the ends of `count` records, of which the first is at `position`."""
    for _ in range(count):
        low = data[position]
        if low < 0x80:
            position += 1 + (low >> 1)
        elif (high := data[position + 1]) < 0x80:  # the usual case, kept fast
            position += 2 + (low - 0x80 >> 1) + (high << 6)
        else:
            size, body = _size(data, position)
            position = body + size
        yield position


def _size(data: bytes, position: int) -> tuple[int, int]:
    """Return a record's size without its sign, and the position after it."""
    value = 0
    for number in range(_MAX_SIZE_BYTES):
        byte = data[position + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return value >> 1, position + number + 1
    raise InvalidRecord(f"the size of a record is longer than {_MAX_SIZE_BYTES} bytes")


class _Cursor:
    """A position in each of many records, moved in all of them at once. Values that it reads in a wrong record are not
    used."""

    def __init__(self, data: bytes, at: Longs, ends: Longs, faults: _Faults, rows: Longs | None = None) -> None:
        self._data = np.frombuffer(data or b"\0", np.uint8)
        self._rows = rows
        self.at = at
        self.ends = ends
        self.faults = faults

    def varint(self) -> Longs:
        """Read a zigzag varint of at most 10 bytes (2.2)."""
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
        self.require(~more & (self.at <= self.ends), "a varint")
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

    def nullable(self) -> Field:
        """Read a field: its length, -1 for null, and its bytes."""
        sizes = self.varint()
        fits = (sizes >= -1) & (sizes <= self.ends - self.at)
        self.require(fits, "the size of a field")
        starts = self.at
        self.at = starts + np.where(fits, np.maximum(sizes, 0), 0)
        return Field(starts, self.at, sizes < 0)

    def require(self, holds: Mask, what: str) -> None:
        self.faults.unless(holds, what, self._rows)

    def of(self, rows: Longs) -> "_Cursor":
        """Return a cursor at the same positions, in these records only."""
        part = _Cursor(b"", self.at[rows], self.ends[rows], self.faults, rows)
        part._data = self._data
        return part


def _binary(data: bytes, field: Field) -> pa.BinaryArray:
    """Copy a field's bytes: they are every second element of an array whose other elements are the bytes between."""
    count = len(field.starts)
    if field.nulls.all():
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2], bounds[1::2] = field.starts, field.ends
    bounds[-1] = field.ends[-1]
    everything = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return everything.take(pa.array(np.arange(0, 2 * count, 2), mask=field.nulls))


def _headers(data: bytes, records: _Cursor, counts: Longs) -> pa.ListArray:
    """Read each record's headers as a list of keys and values, null if it has none; the cursor moves past them."""
    rows: list[Longs] = []
    keys: list[Field] = []
    values: list[Field] = []
    faults = records.faults
    turn, having = 0, np.flatnonzero(counts)
    while len(having) > _FEW:
        part = records.of(having)
        keys.append(part.nullable())
        part.require(~keys[-1].nulls, _NO_KEY)
        values.append(part.nullable())
        rows.append(having)
        records.at[having] = part.at
        turn += 1
        having = having[(counts[having] > turn) & (faults.why[having] == 0)]
    for row in having.tolist():
        try:
            at = int(records.at[row])
            walk = _walk_headers(data[at : int(records.ends[row])], int(counts[row]) - turn) + at
        except InvalidRecord as error:
            faults.unless(np.zeros(1, np.bool_), error.message, np.array([row]))
        else:
            rows.append(np.full(len(walk) // 4, row))
            for fields, first in ((keys, 0), (values, 2)):
                starts, ends = walk[first::4], walk[first + 1 :: 4]
                fields.append(Field(starts, ends, ends < starts))
            records.at[row] = max(walk[-2:])
    kind = arrow_schema(True).field("headers").type
    counts = np.where(faults.why, 0, counts)
    if not counts.any():
        return pa.nulls(len(counts), kind)
    of_row = np.concatenate(rows)
    order = np.argsort(of_row, kind="stable")
    if faults.why.any():
        order = order[faults.why[of_row[order]] == 0]
    key, value = (
        Field(*(np.concatenate(part)[order] for part in zip(*fields, strict=True))) for fields in (keys, values)
    )
    pairs = pa.StructArray.from_arrays([_text(_binary(data, key)), _binary(data, value)], fields=list(kind.value_type))
    bounds = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds), pairs, type=kind, mask=pa.array(counts == 0))


def _walk_headers(data: bytes, count: int) -> Longs:
    """Return the start and end of key and value of each of `count` headers of one record; a null ends before it starts.

    Raises InvalidRecord."""
    edges, position = array("q"), 0
    for number in range(2 * count):
        try:
            size, position = read_varint(data, position)
        except IndexError:
            raise InvalidRecord("a varint") from None
        if size == NULL and not number & 1:
            raise InvalidRecord(_NO_KEY)
        size = (size >> 1) ^ -(size & 1)
        if not -1 <= size <= len(data) - position:
            raise InvalidRecord("the size of a field")
        edges.append(position)
        edges.append(position + size)
        position += max(size, 0)
    return np.frombuffer(edges, np.int64)


def _text(names: pa.BinaryArray) -> pa.StringArray:
    """Decode names of headers as Kafka's clients do: bytes that are not UTF-8 become U+FFFD."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
