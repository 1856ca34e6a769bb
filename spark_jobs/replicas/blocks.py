"""Blocks of one segment: its batches are checked as in `segment_check`, and summed up by offset to be compared.

Most replicas are sound, so there is a short way and a long way. The short way reads a segment once, does almost nothing
for each batch, and checks thousands of them at a time with numpy; at the first doubt it gives up. Then `segment_check`
takes the long way, and says what is wrong.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from replog.log.errors import CorruptRecord
from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import (
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAX_BASE_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    add_digests,
    parse_header,
)
from replog.log.formats.segment_file import SegmentFile
from replog.log.formats.walk import LogFile
from replog.log_tools.checker.segment import missing_from
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import EpochCheckpoint, ReplicaSegment
from spark_jobs.replicas.segment_check import (
    HEADER_LAYOUT,
    INDEX_LAYOUTS,
    Array,
    Batch,
    NotSound,
    SoundIndex,
    check_beside,
    check_epochs,
    check_segment,
    require,
)

BLOCK_BYTES = 64 << 20  # bytes of a replica's log in a block, on average
CHUNK = 4096  # batches that are checked together
WINDOW = 1 << 20  # bytes of one read

_unpack = struct.Struct(">qiibIhi").unpack_from  # the header as far as last_offset_delta
_digested = struct.Struct(">qqiI").pack


@dataclass(frozen=True)
class Cells:
    """The cells in which a partition's offsets are compared: cut every `span` offsets, and at each of `cuts`.

    The cuts are where replicas begin and end, and their high watermarks. So a replica has all of a cell or nothing, and
    all of it is committed or nothing.
    """

    span: int
    cuts: tuple[int, ...]  # ascending
    end: int  # batches from this offset on are not summed up
    begin: int = 0  # batches before it are not summed up, and need not be read
    cleaned_to: int = 0  # batches before it are not summed up: each replica compacted its own (CL-10)

    @property
    def compared_from(self) -> int:
        return max(self.begin, self.cleaned_to)


def block_span(offsets: int, size: int) -> int:
    """Return the offsets in a block, a power of two: a block of a log of `size` bytes has about `BLOCK_BYTES`."""
    return 1 << min(62, math.ceil(math.log2(max(1.0, offsets * BLOCK_BYTES / max(1, size)))))


class Block(NamedTuple):
    """The batches of one segment that begin in one cell."""

    number: int  # offset // span
    cell: int  # the number of cuts at or below its offsets
    first: int
    last: int
    batches: int
    size: int
    digest: int  # the sum of the batches' digests


class Producing:
    """The batches of a segment that a replay of producers needs: those of transactions, and each producer's last."""

    def __init__(self) -> None:
        self._kept: list[tuple[Array, Array]] = []  # positions and headers
        self.end = 0  # the offset after the segment's last batch

    def add(self, positions: Array, headers: Array) -> None:
        """Add consecutive batches."""
        if not len(wrote := np.flatnonzero(headers["producer_id"] >= 0)):
            return
        keep = np.zeros(len(headers), bool)
        keep[wrote] = headers["attributes"][wrote] & (TRANSACTIONAL | CONTROL) != 0
        keep[wrote[::-1][np.unique(headers["producer_id"][wrote][::-1], return_index=True)[1]]] = True
        self._kept.append((positions[keep], headers[keep]))

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        for positions, headers in self._kept:
            yield from zip(positions.tolist(), map(BatchHeader._make, headers.tolist()), strict=True)


def check_blocks(
    segment: ReplicaSegment, log_start: int, cells: Cells, *, crc: bool, producing: list[Producing] | None = None
) -> Iterator[Block | FileFault]:
    """Yield the segment's blocks, and every fault of its log and indexes. Raises OSError if a file cannot be read.

    Without `crc` no payload is read, and faults in it are not seen. If all of a sound segment was read, its producers
    are appended to `producing`.
    """
    try:
        sound = _Sound(segment, log_start, cells, crc=crc)
        yield from sound.blocks()
        if producing is not None and sound.whole:
            producing.append(sound.producing)
        return
    except NotSound:
        pass
    sums = _Sums(cells)
    held: list[Batch] = []
    for item in check_segment(segment, log_start, crc=crc):
        if isinstance(item, FileFault):
            yield item
            continue
        held.append(item)
        if len(held) == CHUNK:
            sums.add_batches(held)
            held.clear()
    sums.add_batches(held)
    yield from sums.blocks


class _Sums:
    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._cuts = np.array(cells.cuts, np.int64)
        self.blocks: list[Block] = []

    def add_batches(self, batches: list[Batch]) -> None:
        digests = [digest_of(b.base_offset, b.last_offset, b.epoch, b.crc) for b in batches]
        columns = [[b.base_offset for b in batches], [b.last_offset for b in batches], [b.size for b in batches]]
        bases, lasts, sizes = (np.array(column, np.int64) for column in columns)
        self.add(bases, lasts, sizes, _sums(digests))

    def add(self, bases: Array, lasts: Array, sizes: Array, digests: Array) -> None:
        """Sum up batches, in the order of the log."""
        wanted = (bases >= self._cells.compared_from) & (bases < self._cells.end)
        if not wanted.all():
            bases, lasts, sizes, digests = bases[wanted], lasts[wanted], sizes[wanted], digests[wanted]
        if not len(bases):
            return
        numbers, cells = bases // self._cells.span, np.searchsorted(self._cuts, bases, "right")
        changes = (numbers[1:] != numbers[:-1]) | (cells[1:] != cells[:-1])
        starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
        ends = np.append(starts[1:], len(bases))
        summed = (
            numbers[starts].tolist(),
            cells[starts].tolist(),
            np.minimum.reduceat(bases, starts).tolist(),
            np.maximum.reduceat(lasts, starts).tolist(),
            (ends - starts).tolist(),
            np.add.reduceat(sizes, starts).tolist(),
            np.add.reduceat(digests, starts).tolist(),
        )
        for block in map(Block._make, zip(*summed, strict=True)):
            before = self.blocks[-1] if self.blocks else None
            if before is None or before[:2] != block[:2]:
                self.blocks.append(block)
                continue
            self.blocks[-1] = Block(
                *block[:2],
                min(before.first, block.first),
                max(before.last, block.last),
                before.batches + block.batches,
                before.size + block.size,
                add_digests(before.digest, block.digest),
            )


def digest_of(base_offset: int, last_offset: int, leader_epoch: int, crc: int) -> bytes:
    """Return what `batch_digest` returns for a header, as eight bytes, big-endian."""
    return blake2b(_digested(base_offset, last_offset, leader_epoch, crc), digest_size=8).digest()


class _Sound:
    """The short way through one segment. Every fault that the long way would report must raise `NotSound` here."""

    def __init__(self, segment: ReplicaSegment, log_start: int, cells: Cells, *, crc: bool) -> None:
        self._segment = segment
        self._log_start = log_start
        self._crc = crc
        self._begin = cells.begin
        self._sums = _Sums(cells)
        # A live broker writes the log first: read after it, an index might name batches that were not read.
        self._indexes = {suffix: SoundIndex(segment, suffix) for suffix in INDEX_LAYOUTS}
        self._checkpoint = EpochCheckpoint()
        self._expected = segment.base
        self.producing, self.whole = Producing(), True
        self._end = 0  # the position after the batches so far
        self._appended = -1  # the offset of the last entry of the offset index
        self._digest = np.uint64(0)
        self._max_timestamp = -1

    def blocks(self) -> list[Block]:
        segment = self._segment
        with segment.open(LOG_SUFFIX) as log:
            # A live broker writes an epoch before its first batch (EP-9): read before the log's size, it might miss.
            self._checkpoint = segment.epochs()
            self._end = first = self._first(log)
            self.whole = first == 0
            indexed = self._indexes[INDEX_SUFFIX].entries["position"]
            check_beside(*(self._indexes[suffix].entries["offset"] for suffix in (INDEX_SUFFIX, DIGEST_SUFFIX)))
            for chunk in _batches(log, first) if self._crc else _headers(log, first, indexed):
                self._check(*chunk)
        require(all(index.seen == len(index.entries) for index in self._indexes.values()))
        require(self._indexes[INDEX_SUFFIX].seen_positions == len(self._indexes[INDEX_SUFFIX].entries))
        next_base = self._expected if segment.next_base is None else segment.next_base
        require(missing_from(segment, self._expected, next_base) == next_base)
        require(segment.next_base is None or self._end == log.size)
        self.producing.end = self._expected
        return self._sums.blocks

    def _first(self, log: SegmentFile) -> int:
        """Return the position to begin at: after the last batch below `begin` that every index has, or 0."""
        offsets, times, digests = (self._indexes[suffix] for suffix in INDEX_LAYOUTS)
        count = int(np.searchsorted(offsets.entries["offset"], self._begin))
        if not count:
            return 0
        offset, position = offsets.entries[count - 1].tolist()
        times_seen, digests_seen = (
            int(np.searchsorted(index.entries["offset"], offset, "right")) for index in (times, digests)
        )
        if len(times.entries) and not times_seen:
            return 0
        if len(digests.entries) and (not digests_seen or digests.entries["offset"][digests_seen - 1] != offset):
            return 0
        try:
            header = parse_header(log.read(position, HEADER_SIZE))
        except CorruptRecord:
            return 0
        if header.last_offset != offset or position + header.size > log.size:
            return 0  # the entry may be for an append of several batches (SG-2)
        offsets.seen = offsets.seen_positions = count
        times.seen, digests.seen = times_seen, digests_seen
        if times_seen:
            self._max_timestamp = int(times.entries["timestamp"][times_seen - 1])
        if digests_seen:
            self._digest = digests.entries["digest"][digests_seen - 1]
        self._expected = offset + 1
        return int(position) + header.size

    def _check(self, start: int, headers: Array, digests: Array) -> None:
        """Check consecutive batches, of which the first is at position `start`."""
        sizes = headers["length"].astype(np.int64) + LOG_OVERHEAD
        ends = start + np.cumsum(sizes)
        bases = headers["base_offset"].astype(np.int64)
        deltas = headers["last_offset_delta"].astype(np.int64)
        counts = headers["records_count"]
        require((headers["magic"] == MAGIC).all() and (deltas >= 0).all())
        require(((counts >= 0) & (counts <= deltas + 1)).all())
        lasts = bases + deltas
        expected = np.concatenate([[self._expected], lasts[:-1] + 1])
        require(((bases == expected) | ((bases > expected) & (bases <= self._segment.cleaned_to))).all())
        require(bases.min() >= 0 and bases.max() < MAX_BASE_OFFSET)
        self._expected, self._end = int(lasts[-1]) + 1, int(ends[-1])
        self._check_offsets(ends - sizes, bases, lasts)
        self.producing.add(ends - sizes, headers)
        self._check_times(headers["max_timestamp"].astype(np.int64), bases, lasts)
        self._check_digests(digests, lasts)
        check_epochs(self._checkpoint, self._log_start, headers["leader_epoch"], bases, lasts)
        self._sums.add(bases, lasts, sizes, digests)

    def _check_offsets(self, positions: Array, bases: Array, lasts: Array) -> None:
        """SG-2: an entry has a batch's position and last offset, or those of the first and last batch of an append."""
        index = self._indexes[INDEX_SUFFIX]
        index.find(lasts, lasts)
        entries = index.until_position(int(positions[-1]))
        at = np.searchsorted(positions, entries["position"])
        require((positions[at] == entries["position"]).all() and (lasts[at] <= entries["offset"]).all())
        exact = entries["offset"] <= self._indexes[DIGEST_SUFFIX].last_offset
        require((lasts[at][exact] == entries["offset"][exact]).all())
        before = np.concatenate([[self._appended], entries["offset"]])
        require((before[:-1] < bases[at]).all())
        self._appended = before[-1]

    def _check_times(self, timestamps: Array, bases: Array, lasts: Array) -> None:
        greatest = np.maximum(np.maximum.accumulate(timestamps), self._max_timestamp)
        self._max_timestamp = int(greatest[-1])
        exact = lasts <= self._indexes[DIGEST_SUFFIX].last_offset
        entries, at = self._indexes[TIME_INDEX_SUFFIX].find(np.where(exact, lasts, bases), lasts)
        require((timestamps[at] == entries["timestamp"]).all() and (greatest[at] == entries["timestamp"]).all())

    def _check_digests(self, digests: Array, lasts: Array) -> None:
        sums = np.cumsum(digests) + self._digest
        self._digest = sums[-1]
        entries, at = self._indexes[DIGEST_SUFFIX].find(lasts, lasts)
        require((sums[at] == entries["digest"]).all())


def _batches(log: SegmentFile, start: int) -> Iterator[tuple[int, Array, Array]]:
    """Yield consecutive batches, `CHUNK` of them at a time: the position of the first, their headers and digests.

    The speed of an audit is that of this loop: reads are large and in order, a CRC is computed without a copy, and a
    batch that a read cuts goes on in the next one.
    """
    headers: list[bytes] = []
    digests: list[bytes] = []
    position = at = start  # `window` begins at `at`
    window = memoryview(b"")
    size = log.size
    while position + HEADER_SIZE <= size:
        place = position - at
        if place + HEADER_SIZE > len(window):
            window, at, place = memoryview(log.read(position, min(WINDOW, size - position))), position, 0
            require(len(window) >= HEADER_SIZE)
        base_offset, length, epoch, _, stored, _, delta = _unpack(window, place)
        end = place + LOG_OVERHEAD + length
        if length < HEADER_SIZE - LOG_OVERHEAD or at + end > size:
            break
        headers.append(bytes(window[place : place + HEADER_SIZE]))
        try:
            digests.append(digest_of(base_offset, base_offset + delta, epoch, stored))
        except struct.error:  # the last offset has more than 64 bits
            raise NotSound from None
        computed = crc32c(window[place + CRC_START : end])
        while end > len(window):
            at, end = at + len(window), end - len(window)
            window = memoryview(log.read(at, min(WINDOW, size - at)))
            require(window)
            computed = crc32c(window[:end], computed)
        require(computed == stored)
        position = at + end
        if len(headers) == CHUNK:
            yield start, np.frombuffer(b"".join(headers), HEADER_LAYOUT), _sums(digests)
            start, headers, digests = position, [], []
    if headers:
        yield start, np.frombuffer(b"".join(headers), HEADER_LAYOUT), _sums(digests)
    _require_end(log, position)


def _headers(log: SegmentFile, position: int, indexed: Array) -> Iterator[tuple[int, Array, Array]]:
    """Yield the same as `_batches` from headers only. The last batch's CRC is checked if bytes follow, since its size
    may be wrong. `indexed` has positions to read ahead; most large batches have one.
    """
    last = None
    while True:
        slot = np.searchsorted(indexed, position)
        log.will_read(indexed[slot : slot + CHUNK].tolist())
        batches = log.headers(position, CHUNK)
        if not batches:
            break
        headers = np.array([header for _, header in batches], HEADER_LAYOUT)
        yield (
            position,
            headers,
            _sums([digest_of(h.base_offset, h.last_offset, h.leader_epoch, h.crc) for _, h in batches]),
        )
        position, last = batches[-1]
        position += last.size
    if last is not None and position < log.size:
        require(LogFile(log).crc(position - last.size, last) == last.crc)
    _require_end(log, position)


def _require_end(log: SegmentFile, position: int) -> None:
    """Raise NotSound if a file ends with bytes that are no batch; the end of a batch may still be missing."""
    if log.size - position < HEADER_SIZE:
        return
    try:
        require(position + parse_header(log.read(position, HEADER_SIZE)).size > log.size)
    except CorruptRecord:
        raise NotSound from None


def _sums(digests: list[bytes]) -> Array:
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)
