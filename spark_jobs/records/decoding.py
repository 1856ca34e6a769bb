"""Checks fetched batches, and turns them into Arrow batches with the source's columns."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replog.client.aborted import AbortedBatches
from replog.errors import ErrorCode
from replog.log.errors import CorruptRecord, InvalidRecord
from replog.log.formats.batch import CODEC_MASK, CONTROL, HEADER_SIZE, BatchHeader, iterate_batches, validate_crc
from replog.log.formats.compression import decompress
from replog.log.offsets import AbortedTransaction, Buffer
from spark_jobs.records.columns import Section, decode_columns, split
from spark_jobs.records.losses import BadRecords
from spark_jobs.records.schema import arrow_schema

GROUP_BYTES = 4 << 20  # the most bytes of uncompressed records in an Arrow batch, unless one record has more


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
