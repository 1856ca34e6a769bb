"""One cleaning of one log (section 8), apart from the log, so that another process can do it.

It reads the sealed segments by its own descriptors and writes `.cleaned` files. The log itself swaps each finished
segment in (`swap`). In memory are the offset map, the fates, and one batch at a time."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replog.config.topic import TopicConfig
from replog.log.compaction.rewriting import (
    GONE,
    LATEST,
    LATEST_TOMBSTONE,
    LOAD_FACTOR,
    SLOT_BYTES,
    CleanedTransactions,
    Compaction,
    Fates,
    OffsetMap,
    ProducerEnd,
)
from replog.log.errors import CorruptRecord, LogUncleanable
from replog.log.formats.batch import CODEC_MASK, CONTROL, HEADER_SIZE, BatchHeader
from replog.log.formats.compression import MAX_UNCOMPRESSED_BYTES, decompress
from replog.log.formats.records import slice_records
from replog.log.formats.segment_file import open_file
from replog.log.formats.walk import Break, LogFile
from replog.log.indexes.index import MAX_RELATIVE_OFFSET, OffsetIndex, TimeIndex
from replog.log.indexes.transaction_index import AbortedTxn, TransactionIndex
from replog.log.log import Log
from replog.log.segment import Segment
from replog.log.swap import Swap, cleaned_segment, remove_cleaned

WRITE_BYTES = 1 << 20
MAX_LOG_BYTES = 2**31 - 1
NOTED_PART = 8  # fates get an eighth of the memory


class Cleanable(NamedTuple):
    """The parts of a log: clean [.., first_dirty), cleanable [first_dirty, first_uncleanable), and the rest."""

    first_dirty: int
    first_uncleanable: int  # the base of a segment, unless nothing is cleanable
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool  # a dirty segment is older than `max.compaction.lag.ms`

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_worth_it(self, config: TopicConfig) -> bool:
        """Decide by CL-2."""
        enough = self.dirty_ratio > config.min_cleanable_dirty_ratio
        return self.cleanable_bytes > 0 and (enough or self.overdue)


def find_cleanable(log: Log, checkpoint: int | None, now_ms: int | None) -> Cleanable:
    """Return the parts. `checkpoint` is where the last cleaning ended; one that is missing or outside of the log counts
    as log start. Without `now_ms` no lag is over."""
    segments, config, log_start_offset = log.segments, log.config, log.log_start_offset
    known = checkpoint is not None and log_start_offset <= checkpoint <= log.log_end_offset
    first_dirty = checkpoint if known and checkpoint is not None else log_start_offset
    active = segments[-1]
    ends = [segment.base_offset for segment in segments[1:]]  # the ends of the sealed ones
    sealed = list(zip(segments, ends, strict=False))
    dirty = [(segment, end) for segment, end in sealed if end > first_dirty]
    with log.work:
        bound = min(log.last_stable_offset, active.base_offset)
        if config.min_compaction_lag_ms > 0:
            least = config.min_compaction_lag_ms
            young = (s.base_offset for s, _ in dirty if now_ms is None or s.age_ms(s.max_timestamp, now_ms) < least)
            bound = min([bound, *young])
        cleanable = [(segment, end) for segment, end in dirty if end <= bound]
        return Cleanable(
            first_dirty,
            cleanable[-1][1] if cleanable else first_dirty,
            sum(segment.size for segment, _ in sealed if segment.base_offset < first_dirty),
            sum(segment.size for segment, _ in cleanable),
            now_ms is not None
            and any(
                s.first_timestamp >= 0 and s.age_ms(s.first_timestamp, now_ms) > config.max_compaction_lag_ms
                for s, _ in cleanable
            ),
        )


class SourceSegment(NamedTuple):
    """A sealed segment, as it was when the cleaning was planned."""

    path: Path
    base_offset: int
    next_offset: int
    size: int
    index_size: int
    time_index_size: int


@dataclass(frozen=True, slots=True)
class CleanTask:
    """The segments to clean, and the state of the log to clean them by."""

    directory: Path
    config: TopicConfig
    sources: tuple[SourceSegment, ...]  # below the first uncleanable offset, oldest first
    transaction_indexes: tuple[tuple[Path, int], ...]  # and base offsets, of all segments with entries, oldest first
    producers: Mapping[int, ProducerEnd]
    first_dirty: int
    first_uncleanable: int
    now_ms: int | None  # None: no tombstone's time is over, or begins
    map_bytes: int
    generation: int  # the log's: a truncation makes the task void

    @classmethod
    def of(cls, log: Log, cleanable: Cleanable, now_ms: int | None, map_bytes: int) -> "CleanTask":
        """Return the task for the cleanable part of a log. Run it in any process. Without `now_ms` no tombstone goes
        for its age."""
        segments, producers = log.segments, log.producers
        sources = [
            SourceSegment(
                segment.path,
                segment.base_offset,
                segment.next_offset,
                segment.size,
                segment.index.count * OffsetIndex.layout.size,
                segment.time_index.count * TimeIndex.layout.size,
            )
            for segment in segments[:-1]
            if segment.base_offset < cleanable.first_uncleanable
        ]
        return cls(
            log.directory,
            log.config,
            tuple(sources),
            tuple((s.transaction_index.path, s.base_offset) for s in segments if s.transaction_index.count),
            {entry.producer_id: ProducerEnd(entry.last_offset, entry.epoch) for entry in producers.snapshot_entries()},
            cleanable.first_dirty,
            cleanable.first_uncleanable,
            now_ms,
            map_bytes,
            log.generation,
        )

    def groups(self, end_offset: int) -> list[list[SourceSegment]]:
        """Group the segments below `end_offset`: each group becomes one segment, within the limits of one (CL-4)."""
        groups: list[list[SourceSegment]] = []
        for source in self.sources:
            if source.base_offset >= end_offset:
                break
            together = [*groups[-1], source] if groups else []
            if (
                together
                and sum(member.size for member in together) <= self.config.segment_bytes
                and sum(member.index_size for member in together) <= self.config.segment_index_bytes
                and sum(member.time_index_size for member in together) <= self.config.segment_index_bytes
                and source.next_offset - 1 - together[0].base_offset <= MAX_RELATIVE_OFFSET
            ):
                groups[-1].append(source)
            else:
                groups.append([source])
        return groups


class Cleaning:
    """Call `map_keys`, then `rewrite` each group of the task. Each result is swapped in before the next.

    Raises CorruptRecord or InvalidRecord for a damaged log, LogUncleanable for one beyond its limits, and OSError. Each
    leaves the log as it is."""

    def __init__(self, task: CleanTask) -> None:
        self.task = task
        self.end_offset = task.first_dirty  # below it the log will be clean
        most_keys = task.first_uncleanable - task.first_dirty
        self._fates = Fates(task.first_dirty, min(most_keys, task.map_bytes // NOTED_PART))
        map_bytes = min(task.map_bytes - self._fates.count, (int(most_keys / LOAD_FACTOR) + 2) * SLOT_BYTES)
        self._keys = OffsetMap(map_bytes)
        self._retained: list[AbortedTxn] = []
        self._transactions = CleanedTransactions(self._retained.append)

    # -- keys

    def map_keys(self) -> None:
        """Note the latest offset of each key in the dirty part, or in as much of it as fits the map (CL-3)."""
        remove_cleaned(self.task.directory)
        transactions = CleanedTransactions(lambda _: None)
        for source in self.task.sources:
            if source.next_offset <= self.task.first_dirty:
                continue
            transactions.add_aborted(self._aborted_in(source))
            for header, data in self._batches(source):
                if header.last_offset < self.task.first_dirty:
                    continue
                void = transactions.observe(header, data) or header.attributes & CONTROL
                if not void and not self._map_batch(header, data):
                    if self.end_offset == self.task.first_dirty:
                        raise LogUncleanable(
                            f"the {header.records_count} records of batch {header.base_offset} in {source.path} have "
                            f"more keys than the {self._keys.capacity} that fit log.cleaner.dedupe.buffer.size="
                            f"{self.task.map_bytes}; raise it"
                        )
                    return
                self.end_offset = header.next_offset
        self.end_offset = self.task.first_uncleanable

    def _map_batch(self, header: BatchHeader, data: memoryview) -> bool:
        """Note a batch's keys. Return False if the map is full before the last one."""
        first, codes, noted, put = self._fates.first, self._fates.codes, self._fates.count, self._keys.put
        base, last = header.base_offset - first, -1
        raw = decompress(header.attributes & CODEC_MASK, bytes(data[HEADER_SIZE:]))
        for _, _, _, _, offset_delta, key, _, is_tombstone in slice_records(raw, header.records_count):
            place = base + offset_delta
            if place < 0:
                continue  # a compacted batch may begin before the dirty part
            fate = GONE
            if key is not None:
                earlier = put(key, first + place)
                if earlier is None:
                    return False
                if first <= earlier < first + noted and codes[earlier - first]:
                    codes[earlier - first] = GONE
                fate = LATEST_TOMBSTONE if is_tombstone else LATEST
            if last < place < noted:  # the second pass counts records, so their offsets must rise
                codes[place] = fate
            last = place
        return True

    # -- segments

    def rewrite(self, group: Sequence[SourceSegment]) -> Swap | None:
        """Write the segment that replaces the group, durably; None if nothing would change."""
        segment = cleaned_segment(self.task.directory, group[0].base_offset)
        swap = Swap(segment, [source.base_offset for source in group])
        try:
            changed = self._write(segment, group)
            if len(group) > 1 or changed:
                segment.seal()
                segment.flush()
                newest = os.stat(group[-1].path)
                os.utime(segment.path, ns=(newest.st_atime_ns, newest.st_mtime_ns))
                segment.close()
                return swap
        except BaseException:
            swap.cancel()
            raise
        swap.cancel()
        return None

    def _write(self, segment: Segment, group: Sequence[SourceSegment]) -> bool:
        """Write the batches that stay. Return True if one differs from what it was."""
        task = self.task
        compaction = Compaction(
            self._keys,
            self._fates,
            self.end_offset,
            self._transactions,
            task.producers,
            task.now_ms,
            task.config.delete_retention_ms,
        )
        ends = (self.end_offset, group[-1].next_offset)
        changed, pending = False, bytearray()
        for source in group:
            self._transactions.add_aborted(self._aborted_in(source))
            for header, data in self._batches(source):
                cleaned = compaction.clean(header, data, must_stay=header.next_offset in ends)
                changed = changed or cleaned is None or cleaned.header != header
                if cleaned is None:
                    continue
                if segment.size + cleaned.header.size > MAX_LOG_BYTES:
                    raise LogUncleanable(
                        f"{source.path} would grow beyond {MAX_LOG_BYTES} bytes by its tombstones' delete horizons"
                    )
                segment.add(cleaned.header, task.config.index_interval_bytes)
                pending += cleaned.data
                if len(pending) >= WRITE_BYTES:
                    segment.write([pending])
                    segment.write_indexes()
                    pending = bytearray()
        segment.write([pending])
        for transaction in self._retained:
            segment.transaction_index.append(transaction)
        segment.write_indexes()
        self._retained.clear()
        return changed

    def _batches(self, source: SourceSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield all batches of a segment, checked; the bytes are valid until the next step."""
        position, next_offset = 0, source.base_offset
        with open_file(source.path) as file:
            log = LogFile(file)
            for step in log.walk(end=source.size):
                if isinstance(step, Break):
                    break
                at, header = step
                if header.size > MAX_UNCOMPRESSED_BYTES:
                    raise CorruptRecord(f"{source.path} at {at}: a batch of {header.size} bytes is not cleaned")
                if header.base_offset < next_offset or log.crc(at, header) != header.crc:
                    raise CorruptRecord(f"{source.path} at {at}: batch {header.base_offset} is damaged")
                yield header, log.read(at, header.size)
                position, next_offset = at + header.size, header.next_offset
        if (position, next_offset) != (source.size, source.next_offset):
            raise CorruptRecord(
                f"{source.path} holds batches up to byte {position} and offset {next_offset}, "
                f"not up to {source.size} and {source.next_offset}"
            )

    def _aborted_in(self, source: SourceSegment) -> list[AbortedTxn]:
        """Return the aborted transactions that may have data in a segment, from its index and later ones."""
        transactions: list[AbortedTxn] = []
        for path, base_offset in self.task.transaction_indexes:
            if base_offset < source.base_offset:
                continue
            index = TransactionIndex(path, base_offset)
            try:
                entries, complete = index.collect(source.base_offset, source.next_offset)
            finally:
                index.close()
            transactions += entries
            if complete:
                break
        return transactions
