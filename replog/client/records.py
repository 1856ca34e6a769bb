"""Records into v2 batches, and out of them by aiokafka's compiled codec, which only this file uses."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from typing_extensions import TypeVar

from replog.errors import ErrorCode, ReplogError
from replog.log.errors import CorruptRecord, InvalidRecord
from replog.log.formats.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    iterate_batches,
    validate_crc,
    with_crc,
)
from replog.log.formats.compression import CODEC_NAMES, compress, decompress
from replog.log.formats.control_batch import AbortedBatches
from replog.log.formats.varint import varint
from replog.log.offsets import AbortedTransaction, Buffer

Headers = Sequence[tuple[str, bytes | None]]
Encoded = tuple[bytes, bytes]  # a batch: its header and its records section

_MAX_RECORD_OVERHEAD = 21  # length, attributes, deltas, key and value lengths, header count
_MAX_VARINT_BYTES = 5
_NULL = varint(-1)  # the size of a null
_NO_HEADERS = varint(0)
MAX_TIMESTAMP_MS = 2**63 - 1
K = TypeVar("K", default=bytes)
V = TypeVar("V", default=bytes)


class Record(NamedTuple, Generic[K, V]):
    """A record, as a consumer gets it."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms since the epoch
    timestamp_type: int  # 0 CreateTime, 1 LogAppendTime
    key: K | None
    value: V | None
    headers: list[tuple[str, bytes | None]]
    leader_epoch: int


def codec_id(compression: str) -> int:
    """Return the batch attribute of a codec (2.4). Raises INVALID_CONFIG for another name."""
    if compression not in CODEC_NAMES:
        raise ErrorCode.INVALID_CONFIG.error(
            f"compression {compression!r} is not a codec; choose one of {', '.join(CODEC_NAMES)}"
        )
    return CODEC_NAMES.index(compression)


def largest_batch_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound, in bytes, of a batch that holds this record alone."""
    size = HEADER_SIZE + _MAX_RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, header_value in headers or ():
        size += 2 * _MAX_VARINT_BYTES + len(name.encode()) + len(header_value or b"")
    return size


@dataclass(slots=True, eq=False)
class BatchBuilder:
    """A batch that is being filled. Its base offset is 0; the leader sets offset and epoch."""

    _batch_size: int
    _codec: int = 0
    count: int = 0
    size: int = HEADER_SIZE  # bytes before compression
    full: bool = False  # a record did not fit
    _pieces: list[bytes] = field(default_factory=list)  # make up the records section, before compression
    _records: bytes | None = None  # the records section, once built
    _base_timestamp: int = 0
    _max_timestamp: int = 0

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers, most: int = sys.maxsize
    ) -> int:
        """Add a record, and return its bytes. Return 0 if it takes more than `most`, or has no room in the batch, which
        is `full` then. The first record always has room.

        Raises TypeError or OverflowError if the record is not made of bytes, text and a 64-bit timestamp."""
        if not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS:
            raise OverflowError(f"timestamp {timestamp_ms} is not 0 to 2^63-1 ms")
        if value.__class__ is not bytes and value is not None:
            value = bytes(memoryview(value))  # a copy: the caller may change it later
        count = self.count
        if not count:
            self._base_timestamp = timestamp_ms
        offset = varint(count)
        between = _NULL if key is None else varint(len(key)) + key
        after = _encode_headers(headers) if headers else _NO_HEADERS
        delta, others = timestamp_ms - self._base_timestamp, len(offset) + len(between) + len(after)
        if value is None:
            (before, value_size, size), value = _frame(delta, others, -1), b""
        else:
            before, value_size, size = _frame(delta, others, len(value))
        total = self.size + size
        if size > most or (total > self._batch_size and count):
            self._has_no_room(size)
            return 0
        self._pieces += (before, offset, between, value_size, value, after)
        self.size = total
        if timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        self.count = count + 1
        return size

    def append_many(
        self, timestamp_ms: int, key: bytes | None, values: Iterator[bytes | None], most: int
    ) -> tuple[bytes | None, ...]:
        """Add values to a batch that has a record, until one does not fit into it or into `most` bytes. Return that
        one; nothing if all are in.

        If something raises, `values` included, the values before it are in."""
        between = _NULL if key is None else varint(len(key)) + key
        delta, others = timestamp_ms - self._base_timestamp, len(between) + len(_NO_HEADERS)
        room = left = min(most, self._batch_size - self.size)
        count, extend = self.count, self._pieces.extend
        framed, wider = -2, count  # the frame is for values of this size, and offsets below `wider`
        try:
            for value in values:
                if value.__class__ is not bytes and value is not None:
                    value = bytes(memoryview(value))  # a copy: the caller may change it later
                offset, value_size = varint(count), -1 if value is None else len(value)
                if value_size != framed or count == wider:
                    framed, wider = value_size, 1 << 7 * len(offset) - 1
                    before, sized, size = _frame(delta, others + len(offset), value_size)
                    sized = between + sized
                if size > left:
                    break
                left -= size
                count += 1
                extend((before, offset, sized, value or b"", _NO_HEADERS))
            else:
                return ()
        finally:
            if count > self.count:
                self._max_timestamp = max(self._max_timestamp, timestamp_ms)
            self.count = count
            self.size += room - left
        self._has_no_room(size)
        return (value,)

    def _has_no_room(self, size: int) -> None:
        self._pieces = [b"".join(self._pieces)]  # many small pieces would take much memory while the batch waits
        self.full = self.count > 0 and self.size + size > self._batch_size

    def build(self, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1) -> Encoded:
        """Return the finished batch, CRC included. Nothing can be added any more, but it can be built again with
        another number."""
        if self._records is None:
            self._records = b"".join(self._pieces)
            self._pieces = []
            if self._codec:
                compressed = compress(self._codec, self._records)
                if len(compressed) < len(self._records):
                    self._records = compressed
                else:
                    self._codec = 0
        length = HEADER_SIZE - LOG_OVERHEAD + len(self._records)
        times = self._base_timestamp, self._max_timestamp
        producer = producer_id, producer_epoch, base_sequence
        header = BatchHeader(0, length, -1, MAGIC, 0, self._codec, self.count - 1, *times, *producer, self.count)
        return HEADER.pack(*with_crc(header, self._records)), self._records


@lru_cache(1 << 12)
def _frame(timestamp_delta: int, others: int, value_size: int) -> tuple[bytes, bytes, int]:
    """Return the bytes before a record's offset and before its value, and the record's size, of which offset, key and
    headers take `others`."""
    start, size = b"\0" + varint(timestamp_delta), varint(value_size)
    rest = others + max(value_size, 0)
    before = varint(len(start) + len(size) + rest) + start
    return before, size, len(before) + len(size) + rest


def _encode_headers(headers: Headers) -> bytes:
    encoded = bytearray(varint(len(headers)))
    for name, value in headers:
        key = name.encode()
        encoded += varint(len(key)) + key + (_NULL if value is None else varint(len(value)) + value)
    return bytes(encoded)


def encode_batch(
    records: Iterable[tuple[int, bytes | None, bytes | None, Headers]], compression: str = "none"
) -> bytearray:
    """Return a batch of one or more (timestamp ms, key, value, headers), however large."""
    builder = BatchBuilder(2**31 - 1, codec_id(compression))
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms, key, value, headers)
    return bytearray().join(builder.build())


class Decoded(NamedTuple):
    """The records of a fetched buffer from an offset on."""

    records: list[Record]
    next_offset: int  # the next to fetch; the one asked for if there was no whole batch


class Undecodable(ReplogError):
    """CORRUPT_MESSAGE: a batch's header, CRC or records are wrong."""

    def __init__(self, message: str, before: Decoded | None = None) -> None:
        """`before` has the records before the damage, if there are any."""
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)
        self.before = before


def decode_fetched(
    buffer: Buffer, topic: str, partition: int, fetch_offset: int, aborted: Iterable[AbortedTransaction] = ()
) -> Decoded:
    """Return every record at or after `fetch_offset`, without control batches, batches of `aborted` transactions and a
    cut-off batch at the end.

    Raises Undecodable, which names partition and offset, and where to go on if that is known."""
    records: list[Record] = []
    new = tuple.__new__  # makes a Record without a call of its own `__new__`
    view = memoryview(buffer)
    next_offset, base, behind = fetch_offset, fetch_offset, -1  # -1: not known
    aborted_batches = AbortedBatches(aborted)
    try:
        for position, header in iterate_batches(view):
            base, epoch, behind = header.base_offset, header.leader_epoch, -1
            if not validate_crc(view, position, header):
                raise CorruptRecord(f"the CRC is not the {header.crc:#010x} of the header")
            behind = header.next_offset
            hidden = aborted_batches.hides(view, position, header) or header.attributes & CONTROL
            if header.next_offset <= fetch_offset:
                continue
            if not hidden:
                records += [
                    new(
                        Record,
                        (topic, partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers, epoch),
                    )
                    for r in DefaultRecordBatch(_uncompressed(view[position : position + header.size], header))
                    if r.offset >= fetch_offset
                ]
            next_offset = header.next_offset
    except (CorruptRecord, InvalidRecord, CorruptRecordException, UnicodeDecodeError, EOFError, OSError) as error:
        remedy = "" if behind < 0 else f"; to go on behind it, seek to {behind}"
        raise Undecodable(
            f"{topic}-{partition}: the batch at offset {base} does not decode: {error}{remedy}",
            Decoded(records, next_offset) if next_offset > fetch_offset else None,
        ) from None
    return Decoded(records, next_offset)


def _uncompressed(batch: memoryview, header: BatchHeader) -> Buffer:
    """Return the batch without compression. The compiled codec would not bound its size."""
    codec = header.attributes & CODEC_MASK
    if codec == 0:
        return batch
    payload = decompress(codec, bytes(batch[HEADER_SIZE:]))
    plain = header._replace(length=HEADER_SIZE - LOG_OVERHEAD + len(payload), attributes=header.attributes - codec)
    return HEADER.pack(*plain) + payload
