"""What the cleaner makes of a batch: which records stay, and the batch that then takes its place (CL-5 to CL-7)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from replog.log.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
    with_crc,
)
from replog.log.compaction.cleaned_transactions import CleanedTransactions
from replog.log.compaction.offset_map import OffsetMap
from replog.log.compaction.record_slices import RecordSlice, slice_records, with_timestamp
from replog.log.compression import compress, decompress
from replog.log.errors import InvalidRecord
from replog.log.offsets import NO_TIMESTAMP, Buffer

RECORDS_A_BREATH = 256
MAX_TIMESTAMP = 2**63 - 1

Breathe = Callable[[], None]  # called every few hundred records: lets others run, or raises to stop the work


class ProducerEnd(NamedTuple):
    """The last thing an active producer wrote: the last offset of its data, -1 if only markers; its epoch."""

    last_offset: int
    epoch: int


class CleanedBatch(NamedTuple):
    header: BatchHeader
    data: Buffer  # the whole batch


@dataclass(frozen=True)
class Compaction:
    """One cleaning's decisions; give it the batches in the order of the log."""

    keys: OffsetMap
    end_offset: int  # below it every key is in the map
    transactions: CleanedTransactions
    producers: Mapping[int, ProducerEnd]
    now_ms: int
    delete_retention_ms: int
    breathe: Breathe

    def clean(self, header: BatchHeader, data: memoryview, *, must_stay: bool) -> CleanedBatch | None:
        """What is kept of a batch of sound CRC; None if nothing is. With `must_stay` at least its header is (CL-7)."""
        discard = self.transactions.observe(header, data)
        if header.base_offset >= self.end_offset:
            return CleanedBatch(header, data)
        if header.attributes & CONTROL:
            cleaned = self._marker(header, data, discard)
        else:
            cleaned = None if discard else self._records(header, data)
        if cleaned is None and (must_stay or self._ends_producer(header)):
            return emptied(header)
        return cleaned

    def _marker(self, header: BatchHeader, data: memoryview, discard: bool) -> CleanedBatch | None:
        """A marker may go once nothing of its transaction is left, and then after a while (CL-6)."""
        horizon = delete_horizon(header)
        if not discard:
            return CleanedBatch(header, data)
        if horizon is None and header.records_count:
            raw = _uncompressed(header, data)
            return self._rebuilt(header, raw, b"\1" * header.records_count, self._new_horizon)
        return CleanedBatch(header, data) if horizon is not None and self.now_ms < horizon else None

    def _records(self, header: BatchHeader, data: memoryview) -> CleanedBatch | None:
        horizon = delete_horizon(header)
        tombstones_stay = horizon is None or self.now_ms < horizon
        raw = _uncompressed(header, data)
        kept, has_tombstone = bytearray(), False  # a byte for each record, not an object: a batch may have millions
        for record in self._slices(header, raw):
            stays = (
                record.key is not None
                and header.base_offset + record.offset_delta >= self.keys.get(record.key)
                and (tombstones_stay or not record.is_tombstone)
            )
            kept.append(stays)
            has_tombstone = has_tombstone or (stays and record.is_tombstone)
        count = kept.count(1)
        if not count:
            return None
        starts_clock = has_tombstone and horizon is None
        if count == header.records_count and not starts_clock:
            return CleanedBatch(header, data)
        return self._rebuilt(header, raw, kept, self._new_horizon if starts_clock else None)

    @property
    def _new_horizon(self) -> int:
        """Never, if that is what `delete.retention.ms` amounts to."""
        return min(self.now_ms + self.delete_retention_ms, MAX_TIMESTAMP)

    def _slices(self, header: BatchHeader, raw: bytes) -> Iterator[RecordSlice]:
        for number, record in enumerate(slice_records(raw, header.records_count), 1):
            yield record
            if number % RECORDS_A_BREATH == 0:
                self.breathe()

    def _rebuilt(self, header: BatchHeader, raw: bytes, kept: bytes | bytearray, horizon: int | None) -> CleanedBatch:
        """The batch with the records marked in `kept` alone, in its codec; a `horizon` becomes its base timestamp."""
        body, newest = bytearray(), NO_TIMESTAMP
        for stays, record in zip(kept, self._slices(header, raw), strict=True):
            if stays:
                log_append_time = header.attributes & LOG_APPEND_TIME
                time = header.max_timestamp if log_append_time else header.base_timestamp + record.timestamp_delta
                newest = max(newest, time)
                if horizon is None:
                    body += raw[record.start : record.end]
                elif time - horizon < -(2**63):
                    raise InvalidRecord(f"batch {header.base_offset} has a record with a timestamp of {time}")
                else:
                    body += with_timestamp(raw, record, time - horizon)
        if newest > MAX_TIMESTAMP:
            raise InvalidRecord(f"batch {header.base_offset} has a record with a timestamp of more than 64 bits")
        if horizon is not None:
            header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon)
        return _packed(
            header._replace(records_count=kept.count(1), max_timestamp=newest),
            compress(header.attributes & CODEC_MASK, bytes(body)),
        )

    def _ends_producer(self, header: BatchHeader) -> bool:
        """Whether it holds what is last known of an active producer: its sequence, or else its epoch (CL-7)."""
        end = self.producers.get(header.producer_id)
        if end is None:
            return False
        if end.last_offset >= 0:
            return header.last_offset == end.last_offset
        return bool(header.attributes & CONTROL) and header.producer_epoch == end.epoch


def delete_horizon(header: BatchHeader) -> int | None:
    """Until when the batch's tombstones, or its marker, must stay (ms); None if no cleaning has set it."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def _uncompressed(header: BatchHeader, data: memoryview) -> bytes:
    return decompress(header.attributes & CODEC_MASK, bytes(data[HEADER_SIZE : header.size]))


def emptied(header: BatchHeader) -> CleanedBatch:
    """The bare header: offsets, sequences, producer and leader epoch stay (CL-7)."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _packed(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")


def _packed(header: BatchHeader, payload: bytes) -> CleanedBatch:
    """With the length and CRC that follow from the payload."""
    header = with_crc(header._replace(length=HEADER_SIZE - LOG_OVERHEAD + len(payload)), payload)
    return CleanedBatch(header, HEADER.pack(*header) + payload)
