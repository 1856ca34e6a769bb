"""The index check of one segment for an audit: every entry is checked, but they make few rows.

Replicas whose segments have the same boundaries have the same entries, so the entries of a block are hashed into one
row. Points remain at the ends of segments and at the cuts, where replicas with other boundaries are compared. Where any
differs, `index_check` yields all entries as points.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from replog.log.errors import CorruptRecord
from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from replog.log.formats.segment_file import MAX_HEADERS, SegmentFile
from replog.log.formats.walk import Break, LogFile
from replog.log_tools.checker.findings import Fault
from spark_jobs.replicas.blocks import Block, Cells
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import EpochCheckpoint, ReplicaSegment
from spark_jobs.replicas.index_check import BYTES, DIGEST, Point, SegmentEnds, index_points
from spark_jobs.replicas.sound import (
    HEADER_LAYOUT,
    INDEX_LAYOUTS,
    Array,
    NotSound,
    SoundIndex,
    check_beside,
    check_epochs,
    require,
)

MAX_STRAYS = 16  # entries of an index without an offset entry, such as the last one of a sealed segment


def index_blocks(segment: ReplicaSegment, log_start: int, cells: Cells) -> Iterator[Block | Point | FileFault]:
    """Yield blocks of index entries (their `digest` is a hash of them), a few points, and every fault that was seen.

    It reads what `index_points` reads. Raises OSError if a file cannot be read.
    """
    try:
        yield from _Sound(segment, log_start).rows(cells)
        return
    except (NotSound, CorruptRecord):
        pass
    entries: dict[str, list[Point]] = {BYTES: [], DIGEST: []}
    for item in index_points(segment, log_start, list(cells.cuts)):
        if isinstance(item, Point) and item.slot >= 0:
            if item.kind in entries and item.value is not None:
                entries[item.kind].append(item)
        else:
            yield item
    before = {BYTES: segment.bytes_before, DIGEST: segment.digest_before or 0}
    for kind, points in entries.items():
        values = np.array([((point.value or 0) - before[kind]) % 2**64 for point in points], np.uint64)
        yield from _hashed(cells, segment.base, np.array([point.offset for point in points], np.int64), values)


def _hashed(cells: Cells, base: int, offsets: Array, values: Array) -> Iterator[Block]:
    """Yield a block for the entries of each cell. `values` are the bytes, or the digests, of the segment from `base` up
    to each of `offsets`."""
    steps = np.diff(values, prepend=np.uint64(0))  # otherwise a difference would show in all later blocks
    since = np.concatenate([[base], offsets + 1])[:-1]  # steps that begin in the cleaned part differ by replica
    wanted = (offsets >= cells.begin) & (since >= cells.cleaned_to) & (offsets < cells.end)
    offsets, steps = offsets[wanted], steps[wanted]
    if not len(offsets):
        return
    numbers, cut = offsets // cells.span, np.searchsorted(np.array(cells.cuts, np.int64), offsets, "right")
    starts = [0, *(np.flatnonzero((np.diff(numbers) != 0) | (np.diff(cut) != 0)) + 1).tolist(), len(offsets)]
    for start, end in pairwise(starts):
        entries = offsets[start:end].tobytes() + steps[start:end].tobytes()
        digest = int.from_bytes(blake2b(entries, digest_size=8).digest(), "big")
        first, last = int(offsets[start]), int(offsets[end - 1])
        yield Block(int(numbers[start]), int(cut[start]), first, last, end - start, 0, digest)


class _Sound(SegmentEnds):
    """The short way. Every fault that `index_check` would report must raise `NotSound` or `CorruptRecord` here."""

    def __init__(self, segment: ReplicaSegment, log_start: int) -> None:
        self._log_start = log_start
        # A live broker writes the log first: read after it, an index might name batches that were not read.
        indexes = {suffix: SoundIndex(segment, suffix) for suffix in INDEX_LAYOUTS}
        self._offsets = indexes[INDEX_SUFFIX].entries
        self._times = indexes[TIME_INDEX_SUFFIX].entries
        self._digests = indexes[DIGEST_SUFFIX].entries
        self._has_digests = indexes[DIGEST_SUFFIX].present
        self._exact_to = indexes[DIGEST_SUFFIX].last_offset
        self._checkpoint = EpochCheckpoint()
        super().__init__(segment, has_entries=len(self._offsets) > 0)

    def rows(self, cells: Cells) -> list[Block | Point]:
        segment = self._segment
        with segment.open(LOG_SUFFIX) as file:
            # A live broker writes an epoch before its first batch (EP-9): read before the log's size, it might miss.
            self._checkpoint = segment.epochs()
            log = LogFile(file, HEADER_SIZE)
            ends, firsts, timestamps = self._read_entries(file)
            self._check_times(log, firsts, timestamps)
            self._check_digests(log)
            points = [*self.first(log), *self.tail(log)]
            for cut in cells.cuts:
                points += self.align(log, cut)
            require(all(isinstance(point, Point) for point in points))
        blocks = [*_hashed(cells, segment.base, self._offsets["offset"], ends.astype(np.uint64))]
        if segment.digest_before is not None:
            blocks += _hashed(cells, segment.base, self._digests["offset"], self._digests["digest"])
        return [*blocks, *(point for point in points if isinstance(point, Point))]

    def _read_entries(self, file: SegmentFile) -> tuple[Array, Array, Array]:
        """Return the ends, first offsets and greatest timestamps of the batches of the offset entries."""
        ends, firsts, timestamps = [], [], []
        before = np.concatenate([[self._segment.base - 1], self._offsets["offset"]])
        for start in range(0, len(self._offsets), MAX_HEADERS):
            entries = self._offsets[start : start + MAX_HEADERS]
            batches = file.headers_at(entries["position"].tolist())
            require(len(batches) == len(entries))
            headers = np.array([header for _, header in batches], HEADER_LAYOUT)
            bases = headers["base_offset"].astype(np.int64)
            lasts = bases + headers["last_offset_delta"]
            end = entries["position"] + headers["length"] + LOG_OVERHEAD
            require((bases > before[start : start + len(bases)]).all() and (lasts == entries["offset"]).all())
            require((end <= file.size).all())
            check_epochs(self._checkpoint, self._log_start, headers["leader_epoch"], bases, lasts)
            ends.append(end)
            firsts.append(bases)
            timestamps.append(headers["max_timestamp"].astype(np.int64))
        empty = np.empty(0, np.int64)
        return np.concatenate([empty, *ends]), np.concatenate([empty, *firsts]), np.concatenate([empty, *timestamps])

    def _check_times(self, log: LogFile, firsts: Array, timestamps: Array) -> None:
        """Check that each entry has its batch's greatest timestamp; nearly all these batches have offset entries."""
        offsets, wanted = self._offsets["offset"], self._times["offset"]
        lowest = np.where(offsets <= self._exact_to, offsets, firsts)  # the lowest offset of a batch's time entry
        at = np.searchsorted(offsets, wanted)
        beside = at < len(offsets)
        beside[beside] = lowest[at[beside]] <= wanted[beside]
        require((timestamps[at[beside]] == self._times["timestamp"][beside]).all())
        strays = self._times[~beside].tolist()
        require(len(strays) <= MAX_STRAYS)
        for timestamp, offset in strays:
            header = self._last_below(log, offset + 1)
            require(header is not None and (header.last_offset, header.max_timestamp) == (offset, timestamp))

    def _check_digests(self, log: LogFile) -> None:
        """Check that batches end at the entries' offsets; nearly all have offset entries, and all of those have one."""
        check_beside(self._offsets["offset"], self._digests["offset"])
        strays = np.setdiff1d(self._digests["offset"], self._offsets["offset"]).tolist()
        require(len(strays) <= MAX_STRAYS)
        for offset in strays:
            header = self._last_below(log, offset + 1)
            require(header is not None and header.last_offset == offset)

    def _last_below(self, log: LogFile, offset: int) -> BatchHeader | None:
        """Return the header of the last batch that ends below `offset`."""
        last = None
        for item in log.walk(self.floor(offset - 1)[1]):
            if isinstance(item, Break) or item[1].last_offset >= offset:
                break
            last = item[1]
        return last

    def floor(self, offset: int) -> tuple[int, int]:
        slot = int(np.searchsorted(self._offsets["offset"], offset, "right")) - 1
        return self._offsets[slot].tolist() if slot >= 0 else (self._segment.base - 1, 0)

    def digest_at(self, offset: int) -> int | None:
        if not self._has_digests or offset < self._segment.base:
            return 0 if self._has_digests else None
        slot = int(np.searchsorted(self._digests["offset"], offset))
        known = slot < len(self._digests) and self._digests["offset"][slot] == offset
        return int(self._digests["digest"][slot]) if known else None

    def see(self, position: int, header: BatchHeader) -> Iterable[Fault]:
        columns = [[header.leader_epoch], [header.base_offset], [header.last_offset]]
        epochs, bases, lasts = (np.array(column, np.int64) for column in columns)
        check_epochs(self._checkpoint, self._log_start, epochs, bases, lasts)
        return ()
