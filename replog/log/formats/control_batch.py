"""Control batches (2.3): markers in the log, never given to applications. The coordinator's end a transaction."""

import struct
from typing import NamedTuple

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    with_crc,
)
from replog.log.formats.records import iterate_records
from replog.log.formats.varint import varint
from replog.log.offsets import Buffer

ABORT = 0
COMMIT = 1
_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction, and the epoch of the coordinator that ended it."""

    committed: bool
    coordinator_epoch: int


def end_transaction_marker(buffer: Buffer, header: BatchHeader, position: int = 0) -> EndTransactionMarker | None:
    """Read the marker in the control batch at `position`; None for other types, and for a batch that compaction has
    emptied. Raises InvalidRecord if the record is not what its type demands."""
    record = next(iterate_records(buffer, header, position), None)
    if record is None:
        return None
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        raise InvalidRecord(f"the key of control record {record.offset} has {len(key)} bytes, fewer than {_KEY.size}")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"the key of control record {record.offset} has version {version}")
    if kind not in (ABORT, COMMIT):
        return None
    if len(value) < _VALUE.size:
        raise InvalidRecord(f"marker {record.offset} has a value of {len(value)} bytes, fewer than {_VALUE.size}")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"the value of marker {record.offset} has version {version}")
    return EndTransactionMarker(kind == COMMIT, coordinator_epoch)


def marker_or_none(buffer: Buffer, header: BatchHeader, position: int = 0) -> EndTransactionMarker | None:
    """Read the marker of a batch that is in a log, which refuses nothing any more: a bad marker counts as none."""
    try:
        return end_transaction_marker(buffer, header, position) if header.attributes & CONTROL else None
    except InvalidRecord:
        return None


def build_end_transaction_marker(
    marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, timestamp: int
) -> bytes:
    """Return the marker's batch as a coordinator hands it to the leader of a partition, which sets offset and epoch."""
    key = _KEY.pack(0, COMMIT if marker.committed else ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    body = b"\0\0\0" + varint(len(key)) + key + varint(len(value)) + value + b"\0"  # deltas of 0, no headers
    record = varint(len(body)) + body
    length = HEADER_SIZE - LOG_OVERHEAD + len(record)
    attributes = TRANSACTIONAL | CONTROL
    fields = attributes, 0, timestamp, timestamp, producer_id, producer_epoch, -1, 1
    return HEADER.pack(*with_crc(BatchHeader(0, length, -1, MAGIC, 0, *fields), record)) + record
