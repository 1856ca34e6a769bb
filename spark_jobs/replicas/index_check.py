"""The index check of one segment: it compares entries with the headers that they point at, and yields points.

A point says how many bytes, and which digest, a replica has up to and including an offset. Two replicas with the same
batches agree on the difference between any two points that they share, whatever their segments and log starts are.
Replicas whose segments have the same boundaries have the same entries, so an audit first hashes those of a block into
one row; where any differs, all entries become points.

It reads only headers: at entries, after the last one, and near aligned offsets. Where something is wrong there,
`check_segment` reads every header of the segment, and says what.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from replog.config.properties import MAX_LONG
from replog.log.errors import CorruptRecord
from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, add_digests, batch_digest
from replog.log.formats.segment_file import MAX_HEADERS, SegmentFile
from replog.log.formats.walk import Break, LogFile
from replog.log.indexes.entries import LAYOUTS
from replog.log_tools.checker.indexes import read_indexes
from replog.log_tools.checker.segment import gap_behind, missing_from
from spark_jobs.replicas.blocks import Block, Cells, digest_of
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import EpochCheckpoint, ReplicaSegment
from spark_jobs.replicas.segment_check import (
    HEADER_LAYOUT,
    INDEX_LAYOUTS,
    Array,
    NotSound,
    SoundIndex,
    check_beside,
    check_epochs,
    check_segment,
    require,
)

BYTES = "bytes"
DIGEST = "digest"
MAX_STRAYS = 16  # entries of an index without an offset entry, such as the last one of a sealed segment

_offset = itemgetter(1)


class Point(NamedTuple):
    """An index entry, or another place. `value` is None if the replica does not know it."""

    kind: str  # BYTES: bytes of log up to `offset`; DIGEST: digest of it
    offset: int
    value: int | None


class _Entries(NamedTuple):
    """The entries of one index that are as the batches say."""

    kind: str
    offsets: Array
    values: Array  # values of points, counted from the segment's beginning


def index_points(segment: ReplicaSegment, log_start: int, aligned: list[int]) -> Iterator[Point | FileFault]:
    """Yield the segment's entries as points, and the faults seen on the way. Raises OSError if a file cannot be read.

    Each offset of `aligned` within the segment adds a point just before it, for the batches that end below it: replicas
    share these even if their indexes, or their batches, share no offset. There is one at each end, too.
    """
    before = {BYTES: segment.bytes_before, DIGEST: segment.digest_before}
    for item in _look(segment, log_start, aligned):
        if not isinstance(item, _Entries):
            yield item
            continue
        for offset, value in zip(item.offsets.tolist(), item.values.tolist(), strict=True):
            yield Point(item.kind, offset, _whole(before[item.kind], value))


def index_blocks(segment: ReplicaSegment, log_start: int, cells: Cells) -> Iterator[Block | Point | FileFault]:
    """Yield blocks of index entries (their `digest` is a hash of them), a few points, and every fault that was seen.

    It reads what `index_points` reads. Raises OSError if a file cannot be read.
    """
    for item in _look(segment, log_start, list(cells.cuts)):
        if not isinstance(item, _Entries):
            yield item
        elif item.kind == BYTES or segment.digest_before is not None:
            yield from _hashed(cells, segment.base, item.offsets, item.values.astype(np.uint64))


def _look(segment: ReplicaSegment, log_start: int, aligned: list[int]) -> Iterator[_Entries | Point | FileFault]:
    end = MAX_LONG if segment.next_base is None else segment.next_base
    wanted = [*sorted(offset for offset in aligned if segment.base < offset <= end), MAX_LONG]
    try:
        yield from _Sound(segment, log_start).rows(wanted)
    except (NotSound, CorruptRecord):
        yield from _by_batches(segment, log_start, wanted)


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


def _by_batches(segment: ReplicaSegment, log_start: int, wanted: list[int]) -> Iterator[_Entries | Point | FileFault]:
    """The long way: yield every fault that headers show, points for `wanted`, and the entries without a fault."""
    indexes = read_indexes(segment)
    offsets, digests = indexes.offsets.rows, indexes.digests.rows
    ends = np.full(len(offsets), -1)  # the ends of the batches that offset entries point at
    lies: list[tuple[str, int]] = []
    end, last, digest = 0, segment.base - 1, 0 if indexes.digests.present else None
    left = iter(wanted)
    coming = next(left)
    for item in check_segment(segment, log_start, crc=False):
        if isinstance(item, FileFault):
            lies.append((item.file, item.position))
            yield item
            continue
        if item.position == 0:
            yield from _points(segment, item.base_offset - 1, end, digest)
        while coming <= item.last_offset:
            yield from _points(segment, coming - 1, end, digest)
            coming = next(left)
        end, last = item.position + item.size, item.last_offset
        ends[bisect_left(offsets, item.base_offset, key=_offset) : bisect_right(offsets, last, key=_offset)] = end
        if digest is not None:
            slot = bisect_left(digests, last, key=_offset)
            indexed = slot < len(digests) and digests[slot][1] == last
            added = digest_of(item.base_offset, last, item.epoch, item.crc)
            digest = digests[slot][2] if indexed else add_digests(digest, int.from_bytes(added))
    for _ in (coming, *left):
        yield from _points(segment, last, end, digest)
    for kind, suffix, index in ((BYTES, INDEX_SUFFIX, indexes.offsets), (DIGEST, DIGEST_SUFFIX, indexes.digests)):
        slots, indexed_offsets, values = map(np.asarray, index.rows.columns)
        kept = ~np.isin(slots, [position // LAYOUTS[suffix].size for file, position in lies if file == suffix])
        if kind == BYTES:
            kept &= ends >= 0
            values = ends
        yield _Entries(kind, indexed_offsets[kept], values[kept])


class _Sound:
    """The short way. Every fault of what it reads must raise `NotSound` or `CorruptRecord`."""

    def __init__(self, segment: ReplicaSegment, log_start: int) -> None:
        self._segment = segment
        self._log_start = log_start
        # A live broker writes the log first: read after it, an index might name batches that were not read.
        indexes = {suffix: SoundIndex(segment, suffix) for suffix in INDEX_LAYOUTS}
        self._offsets = indexes[INDEX_SUFFIX].entries
        self._times = indexes[TIME_INDEX_SUFFIX].entries
        self._digests = indexes[DIGEST_SUFFIX].entries
        self._has_digests = indexes[DIGEST_SUFFIX].present
        self._exact_to = indexes[DIGEST_SUFFIX].last_offset
        self._checkpoint = EpochCheckpoint()

    def rows(self, wanted: list[int]) -> list[_Entries | Point]:
        segment = self._segment
        with segment.open(LOG_SUFFIX) as file:
            # A live broker writes an epoch before its first batch (EP-9): read before the log's size, it might miss.
            self._checkpoint = segment.epochs()
            log = LogFile(file, HEADER_SIZE)
            ends, firsts, timestamps = self._read_entries(file)
            self._check_times(log, firsts, timestamps)
            self._check_digests(log)
            points: list[_Entries | Point] = []
            if log.size >= HEADER_SIZE:
                begins = log.header(0)
                self._check(begins, segment.base)
                points += _points(segment, begins.base_offset - 1, 0, 0 if self._has_digests else None)
            last = segment.base - 1
            for offset in wanted:
                end, header, digest, reached = self._below(log, offset)
                last = last if header is None else header.last_offset
                points += _points(segment, offset - 1 if reached else last, end, digest)
            require(gap_behind(segment, log.size, last + 1) is None)
        points.append(_Entries(BYTES, self._offsets["offset"], ends))
        return [*points, _Entries(DIGEST, self._digests["offset"], self._digests["digest"])]

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
            _, header, _, _ = self._below(log, offset + 1)
            require(header is not None and (header.last_offset, header.max_timestamp) == (offset, timestamp))

    def _check_digests(self, log: LogFile) -> None:
        """Check that batches end at the entries' offsets; nearly all have offset entries, and all of those have one."""
        check_beside(self._offsets["offset"], self._digests["offset"])
        strays = np.setdiff1d(self._digests["offset"], self._offsets["offset"]).tolist()
        require(len(strays) <= MAX_STRAYS)
        for offset in strays:
            _, header, _, _ = self._below(log, offset + 1)
            require(header is not None and header.last_offset == offset)

    def _below(self, log: LogFile, offset: int) -> tuple[int, BatchHeader | None, int | None, bool]:
        """Walk from the last entry below `offset`, and check the batches. Return end and header of the last one that
        ends below `offset`, the digest up to it, if it is known, and whether another reaches `offset`."""
        segment = self._segment
        slot = int(np.searchsorted(self._offsets["offset"], offset)) - 1
        indexed, start = self._offsets[slot].tolist() if slot >= 0 else (segment.base - 1, 0)
        end, header, digest = 0, None, self._digest_at(indexed)
        for item in log.walk(start):
            if isinstance(item, Break):
                require(item.cut_short and segment.next_base is None)
                break
            self._check(item[1], item[1].base_offset if header is None else header.next_offset)
            if (last := item[1].last_offset) >= offset:
                return end, header, digest, True
            header = item[1]
            end = item[0] + header.size
            if digest is not None and last > indexed:
                digest = add_digests(digest, batch_digest(header))
        return end, header, digest, False

    def _check(self, header: BatchHeader, expected: int) -> None:
        """Check a batch's epoch, and that no offset is missing before it, from `expected` on."""
        first = header.base_offset
        require(missing_from(self._segment, expected, first) == first)
        epoch, base, last = np.array([[header.leader_epoch], [first], [header.last_offset]])
        check_epochs(self._checkpoint, self._log_start, epoch, base, last)

    def _digest_at(self, offset: int) -> int | None:
        """Return the segment's digest up to `offset`, which has an offset entry; 0 before the first batch."""
        if not self._has_digests or offset < self._segment.base:
            return 0 if self._has_digests else None
        slot = int(np.searchsorted(self._digests["offset"], offset))
        known = slot < len(self._digests) and self._digests["offset"][slot] == offset
        return int(self._digests["digest"][slot]) if known else None


def _points(segment: ReplicaSegment, last: int, end: int, digest: int | None) -> Iterator[Point]:
    """Yield the points up to offset `last`, for batches of which the last one has this end."""
    yield Point(BYTES, last, segment.bytes_before + end)
    if digest is not None:
        yield Point(DIGEST, last, _whole(segment.digest_before, digest))


def _whole(before: int | None, digest: int) -> int | None:
    return None if before is None else add_digests(before, digest)
