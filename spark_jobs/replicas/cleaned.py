"""Reads the records that compaction has left in one segment, to compare replicas whose batches may differ.

Each replica cleans on its own (CL-10). A record that stays is whole, and at its offset: key, value, headers, timestamp
and leader epoch (CL-7, CL-8).
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from replog.log.errors import CorruptRecord, InvalidRecord
from replog.log.files.names import INDEX_SUFFIX, LOG_SUFFIX
from replog.log.formats.batch import CODEC_MASK, CONTROL, HEADER_SIZE, LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader
from replog.log.formats.compression import decompress
from replog.log.formats.control_batch import marker_or_none
from replog.log.formats.records import RecordSlice, slice_records
from replog.log.formats.walk import Break
from replog.log_tools.checker.findings import Fault, Kind
from replog.log_tools.checker.indexes import read_index
from spark_jobs.replicas.faults import FileFault, capped
from spark_jobs.replicas.files import ReplicaSegment, open_log

TOMBSTONE, COMMITTED, ABORTED, BEYOND = 1, 2, 4, 8  # flags of a record; COMMITTED and ABORTED are markers
KEY_BYTES = 16  # the size of a key's hash


class CleanedRecord(NamedTuple):
    """One record; the fields up to `size` are those of a `Batch`, so that both are compared alike."""

    position: int  # its batch's
    base_offset: int
    last_offset: int  # equals `base_offset`
    epoch: int
    hash: int  # covers timestamp, key, value and headers
    size: int  # bytes, without its timestamp
    key: bytes | None  # a hash of the key; None: it has none, or is a marker
    producer: int | None  # set if it belongs to a transaction, or ends one
    flags: int


def cleaned_records(segment: ReplicaSegment, start: int) -> Iterator[CleanedRecord | FileFault]:
    """Yield records of sound batches from offset `start` on and below `segment.cleaned_to`.

    Flagged BEYOND, it also yields those of the batch at `cleaned_to`, whose keys a full map of the cleaner may know in
    part (CL-3), and later ends of transactions. `check_segment` reports other faults; a sound batch whose records do
    not decode is UNREADABLE here. It holds one uncompressed batch. Raises OSError if a file cannot be read.
    """
    return capped(_records(segment, start))


def _records(segment: ReplicaSegment, start: int) -> Iterator[CleanedRecord | Fault]:
    landmarks = read_index(segment, INDEX_SUFFIX).rows
    with open_log(segment) as log:
        for item in log.walk(0, landmarks):
            if isinstance(item, Break):
                continue
            position, header = item
            beyond = header.base_offset > segment.cleaned_to
            if beyond and segment.base >= segment.cleaned_to:
                return
            if header.last_offset < start or (beyond and not header.attributes & CONTROL):
                continue
            if log.crc(position, header) != header.crc:
                continue
            try:
                for record in _of_batch(position, header, bytes(log.read(position, header.size))):
                    if record.base_offset >= segment.cleaned_to:
                        record = record._replace(flags=record.flags | BEYOND)
                    if record.base_offset >= start:
                        yield record
            except (CorruptRecord, InvalidRecord) as error:
                place = (position, header.base_offset, header.last_offset, header.leader_epoch)
                yield Fault(Kind.RECORDS, LOG_SUFFIX, *place, f"the CRC is right, the records are not: {error.message}")


def _of_batch(position: int, header: BatchHeader, data: bytes) -> Iterator[CleanedRecord]:
    raw = decompress(header.attributes & CODEC_MASK, data[HEADER_SIZE:])
    control, flags = bool(header.attributes & CONTROL), 0
    if control and header.records_count:
        marker = marker_or_none(data, header)
        flags = 0 if marker is None else COMMITTED if marker.committed else ABORTED
    producer = header.producer_id if control or header.attributes & TRANSACTIONAL else None
    for record in slice_records(raw, header.records_count):
        offset = header.base_offset + record.offset_delta
        key = None if control or record.key is None else blake2b(record.key, digest_size=KEY_BYTES).digest()
        kind = TOMBSTONE if record.is_tombstone and not control else flags
        size = record.end - record.after_timestamp
        yield CleanedRecord(
            position, offset, offset, header.leader_epoch, _hash(header, raw, record), size, key, producer, kind
        )


def _hash(header: BatchHeader, raw: bytes, record: RecordSlice) -> int:
    """Return a hash of the absolute timestamp, since a delete horizon changes deltas, and of all that follows it."""
    time = header.max_timestamp
    if not header.attributes & LOG_APPEND_TIME:
        time = header.base_timestamp + record.timestamp_delta
    digest = blake2b(b"%d " % time, digest_size=8)
    digest.update(memoryview(raw)[record.after_timestamp : record.end])
    return int.from_bytes(digest.digest(), "big", signed=True)
