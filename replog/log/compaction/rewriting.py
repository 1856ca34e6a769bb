"""Decides which records of a batch a cleaning keeps, by keys and transactions, and makes the batch that replaces it
(CL-5 to CL-7); and the memory for that: the latest offset of each key, in a table of fixed size (CL-3), and each
record's fate."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from mmap import mmap
from struct import Struct
from typing import NamedTuple

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    with_crc,
)
from replog.log.formats.compression import compress, decompress
from replog.log.formats.control_batch import end_transaction_marker
from replog.log.formats.records import RecordSlice, slice_records, with_timestamp
from replog.log.indexes.transaction_index import AbortedTxn
from replog.log.offsets import NO_TIMESTAMP, Buffer

_DIGEST = Struct("=QQ").unpack_from  # the first 16 bytes
_WORDS = 3  # 8 bytes each: the key's digest in two halves, the offset plus one; zeros in a free slot
SLOT_BYTES = _WORDS * 8
LOAD_FACTOR = 0.9


class OffsetMap:
    """A hash table that knows keys by 16 bytes of BLAKE2b, so a slot takes 24 bytes however long the key is."""

    def __init__(self, max_bytes: int) -> None:
        """Make a table of at most `max_bytes`, and one slot more that is always free, where every search ends. Unused
        pages take no memory."""
        slots = max_bytes // SLOT_BYTES
        if slots < 1:
            raise ValueError(f"{max_bytes} bytes do not hold one slot of {SLOT_BYTES}")
        self._slots = slots + 1
        self._table = memoryview(mmap(-1, self._slots * SLOT_BYTES)).cast("Q")
        self.capacity = max(1, int(slots * LOAD_FACTOR))
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def put(self, key: bytes, offset: int) -> int | None:
        """Note `offset` as the latest of `key`. Return the offset that it replaces, -1 for a new key. None, and nothing
        happens, if there is no room for another key."""
        high, low = _DIGEST(blake2b(key).digest())
        table = self._table
        place = low % self._slots * _WORDS
        while stored := table[place + 2]:
            if table[place + 1] == low and table[place] == high:
                table[place + 2] = offset + 1
                return int(stored) - 1
            place += _WORDS
            if place == len(table):
                place = 0
        if self.count >= self.capacity:
            return None
        self.count += 1
        table[place], table[place + 1], table[place + 2] = high, low, offset + 1
        return -1

    def get(self, key: bytes) -> int:
        """Return the latest offset of `key`; -1 if it is not known."""
        high, low = _DIGEST(blake2b(key).digest())
        table = self._table
        place = low % self._slots * _WORDS
        while stored := table[place + 2]:
            if table[place + 1] == low and table[place] == high:
                return int(stored) - 1
            place += _WORDS
            if place == len(table):
                place = 0
        return -1


UNKNOWN, LATEST, LATEST_TOMBSTONE, GONE = range(4)
STAYING = bytes.maketrans(bytes([GONE]), bytes(1))  # a staying record is not zero
STAYING_WITHOUT_TOMBSTONES = bytes.maketrans(bytes([GONE, LATEST_TOMBSTONE]), bytes(2))


class Fates:
    """The codes of `count` offsets from `first` on: `codes[offset - first]`."""

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.count = count
        self.codes = memoryview(mmap(-1, max(1, count)))

    def of(self, header: BatchHeader) -> bytes | None:
        """Return the codes of a batch's records; None if one is not known, or if the batch has holes."""
        start, end = header.base_offset - self.first, header.next_offset - self.first
        if start < 0 or end > self.count or end - start != header.records_count:
            return None
        codes = bytes(self.codes[start:end])
        return None if UNKNOWN in codes else codes


MAX_TIMESTAMP = 2**63 - 1


class CleanedTransactions:
    """Sees every batch of the log in order, as far as the cleaning goes."""

    def __init__(self, retain: Callable[[AbortedTxn], None]) -> None:
        """`retain` gets each aborted transaction that had data, at its marker: its index entry must stay."""
        self._retain = retain
        self._known: list[AbortedTxn] = []  # later ones, by descending first offset
        self._aborted: dict[int, AbortedTxn] = {}  # producer id → the transaction at hand
        self._with_data: set[int] = set()  # producers whose transaction at hand had a data batch

    def add_aborted(self, transactions: list[AbortedTxn]) -> None:
        """Add aborted transactions that overlap the next batches; one may be given again."""
        self._known = sorted({*self._known, *transactions}, key=lambda txn: txn.first_offset, reverse=True)

    def observe(self, header: BatchHeader, data: Buffer) -> bool:
        """Return True if the batch may go: void data, or a marker without data before it."""
        while self._known and self._known[-1].first_offset <= header.last_offset:
            transaction = self._known.pop()
            if transaction.last_offset < header.base_offset:
                continue  # it ended before the cleaning begins
            known = self._aborted.get(transaction.producer_id)
            if known is None or known.last_offset < transaction.first_offset:
                self._aborted[transaction.producer_id] = transaction
        if header.attributes & CONTROL:
            return self._at_marker(header, data)
        if not header.attributes & TRANSACTIONAL:
            return False
        self._with_data.add(header.producer_id)
        return header.producer_id in self._aborted

    def _at_marker(self, header: BatchHeader, data: Buffer) -> bool:
        if not header.records_count:
            return True  # an earlier cleaning has removed its record
        marker = end_transaction_marker(data, header)
        if marker is None:
            return False  # only the coordinator's markers end transactions
        had_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        aborted = None if marker.committed else self._aborted.pop(header.producer_id, None)
        if aborted is not None and had_data:
            self._retain(aborted)
        return not had_data


class ProducerEnd(NamedTuple):
    """An active producer's last offset, -1 if it has only written markers, and its epoch."""

    last_offset: int
    epoch: int


class CleanedBatch(NamedTuple):
    header: BatchHeader
    data: Buffer  # the whole batch


@dataclass(frozen=True)
class Compaction:
    """The decisions of one cleaning. It must see the batches in the order of the log."""

    keys: OffsetMap
    fates: Fates
    end_offset: int  # below it every key is in the map
    transactions: CleanedTransactions
    producers: Mapping[int, ProducerEnd]
    now_ms: int | None  # None: no horizon is set or reached
    delete_retention_ms: int

    def clean(self, header: BatchHeader, data: memoryview, *, must_stay: bool) -> CleanedBatch | None:
        """Return the part of a sound batch that is kept; None if nothing is. With `must_stay`, at least its header is
        (CL-7)."""
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
        """Keep a marker while something of its transaction is left, and then for a while (CL-6)."""
        horizon = delete_horizon(header)
        if not discard or (horizon is None and header.records_count and self.now_ms is None):
            return CleanedBatch(header, data)
        if horizon is None and header.records_count and self.now_ms is not None:
            return self._starts_clock(header, _uncompressed(header, data), header.records_count, self.now_ms)
        return CleanedBatch(header, data) if horizon is not None and not self._is_over(horizon) else None

    def _records(self, header: BatchHeader, data: memoryview) -> CleanedBatch | None:
        horizon = delete_horizon(header)
        tombstones_stay = horizon is None or not self._is_over(horizon)
        fates, staying = self.fates.of(header), None
        if fates is not None:
            staying = fates.translate(STAYING if tombstones_stay else STAYING_WITHOUT_TOMBSTONES)
            if not any(staying):
                return None
            if all(staying) and (horizon is not None or LATEST_TOMBSTONE not in fates):
                return CleanedBatch(header, data)
        raw = _uncompressed(header, data)
        if staying is not None:
            records = slice_records(raw, header.records_count, staying)
        else:
            records = self._looked_up(header, raw, tombstones_stay)
        body, count, newest_delta, has_tombstone = bytearray(), 0, NO_TIMESTAMP - header.base_timestamp, False
        for start, end, timestamp_delta, _, _, _, _, is_tombstone in records:
            body += raw[start:end]
            count += 1
            newest_delta = timestamp_delta if timestamp_delta > newest_delta else newest_delta
            has_tombstone = has_tombstone or is_tombstone
        if not count:
            return None
        if has_tombstone and horizon is None and self.now_ms is not None:
            return self._starts_clock(header, body, count, self.now_ms)
        if count == header.records_count:
            return CleanedBatch(header, data)
        log_append_time = header.attributes & LOG_APPEND_TIME
        newest = header.max_timestamp if log_append_time else header.base_timestamp + newest_delta
        return _rebuilt(header, body, count, newest)

    def _looked_up(self, header: BatchHeader, raw: bytes, tombstones_stay: bool) -> Iterator[RecordSlice]:
        """Yield the staying records of a batch without noted fates: it was clean before, or there was no room."""
        base_offset, latest_of = header.base_offset, self.keys.get
        for record in slice_records(raw, header.records_count):
            _, _, _, _, offset_delta, key, _, is_tombstone = record
            if key is None or base_offset + offset_delta < latest_of(key) or (is_tombstone and not tombstones_stay):
                continue
            yield record

    def _is_over(self, horizon: int) -> bool:
        return self.now_ms is not None and horizon <= self.now_ms

    def _starts_clock(self, header: BatchHeader, body: bytes | bytearray, count: int, now_ms: int) -> CleanedBatch:
        """Return the batch with these records and a delete horizon, which becomes its base timestamp."""
        horizon = min(now_ms + self.delete_retention_ms, MAX_TIMESTAMP)  # the maximum means never
        log_append_time = header.attributes & LOG_APPEND_TIME
        moved, newest = bytearray(), NO_TIMESTAMP
        for record in slice_records(bytes(body), count):
            time = header.max_timestamp if log_append_time else header.base_timestamp + record.timestamp_delta
            if time - horizon < -(2**63):
                raise InvalidRecord(f"batch {header.base_offset} has a record with a timestamp of {time}")
            moved += with_timestamp(body, record, time - horizon)
            newest = max(newest, time)
        header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon)
        return _rebuilt(header, moved, count, newest)

    def _ends_producer(self, header: BatchHeader) -> bool:
        """Return True if it holds an active producer's last sequence, or else its epoch (CL-7)."""
        end = self.producers.get(header.producer_id)
        if end is None:
            return False
        if end.last_offset >= 0:
            return header.last_offset == end.last_offset
        return bool(header.attributes & CONTROL) and header.producer_epoch == end.epoch


def delete_horizon(header: BatchHeader) -> int | None:
    """Return the time (ms) until which the batch's tombstones, or its marker, stay; None if no cleaning has set it."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def _uncompressed(header: BatchHeader, data: memoryview) -> bytes:
    return decompress(header.attributes & CODEC_MASK, bytes(data[HEADER_SIZE : header.size]))


def emptied(header: BatchHeader) -> CleanedBatch:
    """Return the bare header: offsets, sequences, producer and leader epoch stay (CL-7)."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _packed(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")


def _rebuilt(header: BatchHeader, body: bytearray, count: int, newest: int) -> CleanedBatch:
    """Return a batch of these records in the header's codec; `newest` is their greatest timestamp."""
    if newest > MAX_TIMESTAMP:
        raise InvalidRecord(f"batch {header.base_offset} has a record with a timestamp of more than 64 bits")
    payload = compress(header.attributes & CODEC_MASK, bytes(body))
    return _packed(header._replace(records_count=count, max_timestamp=newest), payload)


def _packed(header: BatchHeader, payload: bytes) -> CleanedBatch:
    """Set the length and CRC that follow from the payload."""
    header = with_crc(header._replace(length=HEADER_SIZE - LOG_OVERHEAD + len(payload)), payload)
    return CleanedBatch(header, HEADER.pack(*header) + payload)
