"""Checks fetched batches, and turns them into Arrow batches with the source's columns.

Any producer can write records that cannot be shown, since brokers do not look at records. A flipped bit is another
matter: the CRC shows it."""

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replog.errors import ErrorCode, ReplogError
from replog.log.errors import CorruptRecord, InvalidRecord
from replog.log.formats.batch import CODEC_MASK, CONTROL, HEADER_SIZE, BatchHeader, iterate_batches, validate_crc
from replog.log.formats.compression import decompress
from replog.log.formats.control_batch import AbortedBatches
from replog.log.offsets import AbortedTransaction, Buffer
from spark_jobs.records.columns import Longs, Mask, Section, arrow_schema, decode_columns, split

GROUP_BYTES = 4 << 20  # the most bytes of uncompressed records in an Arrow batch, unless one record has more
MAX_TIMESTAMP_MS = (2**63 - 1) // 1000  # Spark counts microseconds
# The years 1 to 9999 in any time zone, which Spark documents for timestamps, and Python can hold.
FIRST_SHOWN_MS, LAST_SHOWN_MS = -62_135_510_400_000, 253_402_214_400_000

logger = logging.getLogger(__name__)


class BadRecords:
    """The bad records of one task. With `fail` the first one raises; the error says how to go on past it.

    Otherwise records that do not decode are left out, a time that Spark or Python cannot hold is null, and `warn` logs.
    """

    def __init__(self, partition: object, *, fail: bool) -> None:
        self._partition = partition
        self._fail = fail
        self._found: list[str] = []
        self._count = 0

    def undecoded(self, first: int, last: int, reason: str) -> None:
        """Note that the records from `first` to `last` are left out. Raises CORRUPT_MESSAGE if `fail`."""
        what = (
            f"the record at offset {first} does" if first == last else f"the records from offset {first} to {last} do"
        )
        self._tell(ErrorCode.CORRUPT_MESSAGE, last - first + 1, f"{what} not decode: {reason}")

    def without_time(self, offsets: Longs, timestamps: Longs) -> Mask:
        """Return the mask of records whose timestamps (ms) must become null. Raises INVALID_TIMESTAMP if `fail`."""
        least, most = (-MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS) if self._fail else (FIRST_SHOWN_MS, LAST_SHOWN_MS)
        none = (timestamps < least) | (timestamps > most)
        if none.any():
            first = int(none.argmax())
            self._tell(
                ErrorCode.INVALID_TIMESTAMP,
                int(none.sum()),
                f"the record at offset {offsets[first]} is dated {timestamps[first]} ms since 1970, and Spark holds no "
                f"such time ({least} to {most}); its producer may count micro- or nanoseconds",
            )
        return none

    def warn(self) -> None:
        """Log one warning about all bad records, if there were any."""
        if self._count:
            logger.warning(
                "%s: %d records were left out or have no timestamp; failOnBadRecords is false: going on; the first: %s",
                self._partition,
                self._count,
                self._found[0],
            )

    def _tell(self, code: ErrorCode, count: int, what: str) -> None:
        if self._fail:
            raise ReplogError(
                code, f"{self._partition}: {what}; to go on past such records, set the option failOnBadRecords to false"
            )
        self._count += count
        self._found = self._found or [what]


class Batches(NamedTuple):
    """Batches of one partition whose headers and CRCs are right."""

    topic: str
    partition: int
    first_offset: int  # records before it were not asked for
    batches: list[tuple[BatchHeader, memoryview]]  # each with its records section, which may be compressed
    next_offset: int  # the offset of the next fetch


def checked_batches(
    buffer: Buffer, topic: str, partition: int, fetch_offset: int, aborted: Iterable[AbortedTransaction] = ()
) -> Batches:
    """Return the whole batches of a fetch's answer, without control batches and those of `aborted` transactions (LG-9).

    Raises CORRUPT_MESSAGE, with partition and offset."""
    view = memoryview(buffer)
    batches: list[tuple[BatchHeader, memoryview]] = []
    next_offset = base = fetch_offset
    aborted_batches = AbortedBatches(aborted)
    try:
        for position, header in iterate_batches(view):
            base = header.base_offset
            if not validate_crc(view, position, header):
                raise CorruptRecord(f"the CRC is not the {header.crc:#010x} of the header")
            hidden = aborted_batches.hides(view, position, header) or header.attributes & CONTROL
            if header.next_offset > fetch_offset:
                next_offset = header.next_offset
                if not hidden:
                    batches.append((header, view[position + HEADER_SIZE : position + header.size]))
    except CorruptRecord as error:
        what = f"{topic}-{partition}: batches from offset {base} on do not decode: {error.message}"
        raise ErrorCode.CORRUPT_MESSAGE.error(what) from None
    return Batches(topic, partition, fetch_offset, batches, next_offset)


def arrow_batches(fetched: Batches, end_offset: int, bad: BadRecords, *, headers: bool) -> Iterator[pa.RecordBatch]:
    """Yield the records below `end_offset`, in order; `bad` handles those that do not decode, or whose time is wrong.

    It holds one uncompressed record batch, and a small multiple of `GROUP_BYTES`, or of one record, at a time."""
    group: list[Section] = []
    size = 0
    for header, stored in fetched.batches:
        if header.base_offset >= end_offset:
            break
        codec = header.attributes & CODEC_MASK
        try:
            plain = decompress(codec, bytes(stored)) if codec else stored
        except InvalidRecord as error:
            if header.records_count and header.last_offset >= fetched.first_offset:
                bad.undecoded(header.base_offset, header.last_offset, error.message)
            continue
        for section in split(Section(header, plain, header.records_count), GROUP_BYTES):
            if size + len(section.data) > GROUP_BYTES:
                yield from _arrow_batch(fetched, group, end_offset, bad, headers)
                group, size = [], 0
            group.append(section)
            size += len(section.data)
    yield from _arrow_batch(fetched, group, end_offset, bad, headers)


def _arrow_batch(
    fetched: Batches, group: list[Section], end_offset: int, bad: BadRecords, headers: bool
) -> Iterator[pa.RecordBatch]:
    columns = decode_columns(group, headers=headers)
    for first, last, reason in columns.bad:
        if first < end_offset and last >= fetched.first_offset:
            bad.undecoded(first, last, reason)
    count = len(columns.offset)
    first, end = np.searchsorted(columns.offset, (fetched.first_offset, end_offset))
    if first == end:
        return
    none = bad.without_time(columns.offset[first:end], columns.timestamp[first:end])
    arrays = [
        columns.key,
        columns.value,
        pa.repeat(fetched.topic, count),
        pa.repeat(pa.scalar(fetched.partition, pa.int32()), count),
        pa.array(columns.offset),
        pa.array(columns.timestamp * 1000).view(pa.timestamp("us", tz="UTC")),
        pa.array(columns.timestamp_type.astype(np.int32)),
        *([] if columns.headers is None else [columns.headers]),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(headers)).slice(first, end - first)
    if none.any():
        times = pc.if_else(pa.array(none), None, batch["timestamp"])
        batch = batch.set_column(batch.schema.get_field_index("timestamp"), batch.schema.field("timestamp"), times)
    yield batch
