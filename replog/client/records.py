"""Records in and out of v2 batches: the one seam to aiokafka's compiled codec."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from replog.client.aborted import AbortedBatches
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
)
from replog.log.formats.compression import CODEC_NAMES, decompress
from replog.log.offsets import AbortedTransaction, Buffer

Headers = Sequence[tuple[str, bytes | None]]

_MAX_RECORD_OVERHEAD = 21  # length, attributes, deltas, key and value lengths, header count
_MAX_VARINT_BYTES = 5
MAX_TIMESTAMP_MS = 2**63 - 1


class Record(NamedTuple):
    """One record as a consumer sees it."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms since the epoch
    timestamp_type: int  # 0 CreateTime, 1 LogAppendTime
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    leader_epoch: int


def codec_id(compression: str) -> int:
    """The batch attribute of a codec (2.4). Raises INVALID_CONFIG when it is not one."""
    if compression not in CODEC_NAMES:
        raise ReplogError(
            ErrorCode.INVALID_CONFIG,
            f"compression {compression!r} is not a codec; choose one of {', '.join(CODEC_NAMES)}",
        )
    return CODEC_NAMES.index(compression)


def largest_batch_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Upper bound, in bytes, of a batch that holds this record alone."""
    size = HEADER_SIZE + _MAX_RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, header_value in headers:
        size += 2 * _MAX_VARINT_BYTES + len(name.encode()) + len(header_value or b"")
    return size


class BatchBuilder:
    """One batch being filled: base offset 0, no producer id; the leader stamps offset and epoch."""

    __slots__ = ("_builder", "count")

    def __init__(self, batch_size: int, codec_number: int = 0) -> None:
        self._builder = DefaultRecordBatchBuilder(MAGIC, codec_number, 0, -1, -1, -1, batch_size)
        self.count = 0

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Bytes that the record took, or 0 if the batch has no room for it; the first record always has room.

        Raises TypeError or OverflowError when the record is not made of bytes, text and a 64-bit timestamp.
        """
        written = self._builder.append(self.count, timestamp_ms, key, value, list(headers) if headers else [])
        if written is None:
            return 0
        self.count += 1
        size: int = written.size
        return size

    def build(self) -> bytearray:
        """The finished batch, CRC included; to be called once, after which nothing can be appended."""
        data: bytearray = self._builder.build()
        return data


def encode_batch(
    records: Iterable[tuple[int, bytes | None, bytes | None, Headers]], compression: str = "none"
) -> bytearray:
    """One batch of (timestamp ms, key, value, headers), however large; at least one record."""
    builder = BatchBuilder(2**31 - 1, codec_id(compression))
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms, key, value, headers)
    if builder.count == 0:
        raise ReplogError(ErrorCode.INVALID_RECORD, "a batch holds at least one record")
    return builder.build()


class Decoded(NamedTuple):
    """What a fetched buffer held from one offset on."""

    records: list[Record]
    next_offset: int  # where to fetch next; the offset asked for when no whole batch was there
    last_epoch: int  # leader epoch of the last whole batch; -1 when there was none


def decode_fetched(
    buffer: Buffer,
    topic: str,
    partition: int,
    fetch_offset: int,
    aborted: Iterable[AbortedTransaction] = (),
) -> Decoded:
    """Every record at or after `fetch_offset`; control batches are skipped, as is a cut-off batch at the end, and so
    are the batches of `aborted` transactions.

    Raises CORRUPT_MESSAGE, naming partition and offset, when a batch's header, CRC or records are wrong.
    """
    records: list[Record] = []
    next_offset, last_epoch = fetch_offset, -1
    view = memoryview(buffer)
    base = fetch_offset
    aborted_batches = AbortedBatches(aborted)
    try:
        for position, header in iterate_batches(view):
            base, epoch = header.base_offset, header.leader_epoch
            if not validate_crc(view, position, header):
                raise CorruptRecord(f"the CRC is not the {header.crc:#010x} of the header")
            hidden = aborted_batches.hides(view, position, header) or header.attributes & CONTROL
            if header.next_offset <= fetch_offset:
                continue
            next_offset, last_epoch = header.next_offset, epoch
            if hidden:
                continue
            for record in DefaultRecordBatch(_uncompressed(view[position : position + header.size], header)):
                if record.offset >= fetch_offset:
                    records.append(
                        Record(
                            topic,
                            partition,
                            record.offset,
                            record.timestamp,
                            record.timestamp_type,
                            record.key,
                            record.value,
                            record.headers,
                            epoch,
                        )
                    )
    except (CorruptRecord, InvalidRecord, CorruptRecordException, UnicodeDecodeError, EOFError, OSError) as error:
        raise ReplogError(
            ErrorCode.CORRUPT_MESSAGE, f"{topic}-{partition}: the batch at offset {base} does not decode: {error}"
        ) from None
    return Decoded(records, next_offset, last_epoch)


def _uncompressed(batch: memoryview, header: BatchHeader) -> Buffer:
    """The batch as if it had never been compressed; the compiled codec would not bound what comes out."""
    codec = header.attributes & CODEC_MASK
    if codec == 0:
        return batch
    payload = decompress(codec, bytes(batch[HEADER_SIZE:]))
    plain = header._replace(length=HEADER_SIZE - LOG_OVERHEAD + len(payload), attributes=header.attributes - codec)
    return HEADER.pack(*plain) + payload


def decode(buffer: Buffer, topic: str = "", partition: int = 0, fetch_offset: int = 0) -> Iterator[Record]:
    """The records of `decode_fetched`, one after the other."""
    return iter(decode_fetched(buffer, topic, partition, fetch_offset).records)
