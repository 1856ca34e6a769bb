"""Control batches (2.3): markers in the log, never given to applications. The coordinator's end a transaction, and say
which batches of an answer were aborted."""

import struct
from collections import deque
from collections.abc import Iterable
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
from replog.log.offsets import AbortedTransaction, Buffer

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


class AbortedBatches:
    """The aborted transactions of a fetch answer, which READ_COMMITTED skips (LG-9). Call `hides` for each of its
    batches in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_begin = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._producers: set[int] = set()  # their open transaction will be aborted

    def hides(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Return True if the batch at `position` is data of an aborted transaction."""
        while self._to_begin and self._to_begin[0].first_offset <= header.last_offset:
            self._producers.add(self._to_begin.popleft().producer_id)
        if header.producer_id not in self._producers:
            return False
        if header.attributes & CONTROL:
            marker = marker_or_none(buffer, header, position)
            if marker is not None and not marker.committed:
                self._producers.remove(header.producer_id)
            return False
        return bool(header.attributes & TRANSACTIONAL)


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
