"""The index check of one segment: it compares entries with the headers that they point at, and yields points.

A point says how many bytes, and which digest, a replica has up to and including an offset. Two replicas with the same
batches agree on the difference between any two points that they share, whatever their segments and log starts are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from replog.config.properties import MAX_LONG
from replog.log.errors import CorruptRecord
from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import HEADER_SIZE, BatchHeader
from replog.log.formats.digest import add_digests, batch_digest
from replog.log.formats.segment_file import MAX_HEADERS
from replog.log.formats.walk import Break, LogFile
from replog.log.indexes.entries import Rows
from replog.log_tools.checker.findings import Fault, Kind
from replog.log_tools.checker.indexes import ends_batch, lie, read_indexes, times_batch
from replog.log_tools.checker.segment import epoch_faults, gap_behind, missing_from, surplus
from spark_jobs.replicas.faults import FileFault, capped
from spark_jobs.replicas.files import EpochCheckpoint, ReplicaSegment, open_log
from spark_jobs.replicas.segment_check import epoch_checker

BYTES = "bytes"
DIGEST = "digest"
TIME = "time"

_offset = itemgetter(1)


class Point(NamedTuple):
    """An index entry, or another place (`slot` -1). `value` is None if the replica does not know it."""

    kind: str  # BYTES: bytes of log up to `offset`; DIGEST: digest of it; TIME: a timestamp
    slot: int
    offset: int
    position: int  # the batch's; -1 for entries without one
    value: int | None


def index_points(segment: ReplicaSegment, log_start: int, aligned: list[int]) -> Iterator[Point | FileFault]:
    """Yield the segment's entries as points, and the faults seen on the way. Raises OSError if a file cannot be read.

    Each offset of `aligned` within the segment adds a point just before it, for the batches that end below it: replicas
    share these even if their indexes, or their batches, share no offset. It reads only batch headers: at entries, after
    the last one, and near aligned offsets.
    """
    return capped(_IndexCheck(segment, log_start).run(aligned))


class SegmentEnds:
    """Finds points and faults at a segment's ends and near aligned offsets, from sound index entries on."""

    def __init__(self, segment: ReplicaSegment, *, has_entries: bool) -> None:
        self._segment = segment
        self._has_entries = has_entries  # the offset index has some

    def see(self, position: int, header: BatchHeader) -> Iterable[Fault]:
        """Return the faults of a batch's leader epoch."""
        raise NotImplementedError

    def floor(self, offset: int) -> tuple[int, int]:
        """Return offset and position of the last sound entry up to `offset`, from which its batch is found."""
        raise NotImplementedError

    def digest_at(self, offset: int) -> int | None:
        """Return the segment's digest up to `offset`, which has an offset entry; 0 before the first batch."""
        raise NotImplementedError

    def first(self, log: LogFile) -> Iterator[Point | Fault]:
        """Yield the point before the segment, at which its sums begin."""
        base = self._segment.base
        if log.size < HEADER_SIZE:
            return
        try:
            header = log.header(0)
        except CorruptRecord as error:
            if self._has_entries:  # otherwise `tail` begins here, and reports it
                yield Fault(Kind.BATCH_HEADER, LOG_SUFFIX, 0, base, base, -1, error.message)
            return
        first = header.base_offset
        yield from self.see(0, header)
        if (missing := missing_from(self._segment, base, first)) != first:
            yield Fault(
                Kind.HOLE, LOG_SUFFIX, 0, min(first, missing), max(first, base) - 1, -1, f"first batch is at {first}"
            )
        yield Point(BYTES, -1, first - 1, -1, self._segment.bytes_before)
        yield Point(DIGEST, -1, first - 1, -1, self._segment.digest_before)

    def tail(self, log: LogFile) -> Iterator[Point | Fault]:
        """Check the batches after the last entry, and that the next segment continues there; yield the point there."""
        position = last = -1
        header = None
        indexed, start = self.floor(MAX_LONG)
        digest = self.digest_at(indexed)
        for item in log.walk(start):
            if isinstance(item, Break):
                first = self._segment.base if header is None else header.next_offset
                if (fault := surplus(self._segment, first, item)) is not None:
                    yield fault
                elif not item.cut_short:
                    until = first if self._segment.next_base is None else max(first, self._segment.next_base - 1)
                    yield Fault(Kind.BATCH_HEADER, LOG_SUFFIX, item.position, first, until, -1, item.reason)
                    last = until
                break
            expected = item[1].base_offset if header is None else header.next_offset
            position, header = item
            if (missing := missing_from(self._segment, expected, header.base_offset)) != header.base_offset:
                first, last = sorted((missing, header.base_offset))
                detail = f"the offset goes from {expected} to {header.base_offset}"
                yield Fault(Kind.HOLE, LOG_SUFFIX, position, first, last - 1, header.leader_epoch, detail)
            digest = _add(digest, header, indexed)
            yield from self.see(position, header)
        if header is not None:
            yield self._point(header, -1, position)
            if digest is not None:
                yield Point(DIGEST, -1, header.last_offset, position, self._whole_digest(digest))
            last = max(last, header.last_offset)
        if (gap := gap_behind(self._segment, log.size, max(last + 1, self._segment.base))) is not None:
            yield gap

    def align(self, log: LogFile, offset: int) -> Iterator[Point]:
        """Yield points for the batches that end below `offset`: at the offset before it, or at the log's end."""
        segment = self._segment
        if offset <= segment.base or (segment.next_base is not None and offset > segment.next_base):
            return
        indexed, start = self.floor(offset - 1)
        digest = self.digest_at(indexed)
        position, end, last = -1, 0, segment.base - 1
        for item in log.walk(start):
            if isinstance(item, Break):
                break
            if item[1].last_offset >= offset:
                last = offset - 1
                break
            position, end, last = item[0], item[0] + item[1].size, item[1].last_offset
            digest = _add(digest, item[1], indexed)
        yield Point(BYTES, -1, last, position, segment.bytes_before + end)
        if digest is not None:
            yield Point(DIGEST, -1, last, position, self._whole_digest(digest))

    def _point(self, header: BatchHeader, slot: int, position: int) -> Point:
        return Point(BYTES, slot, header.last_offset, position, self._segment.bytes_before + position + header.size)

    def _whole_digest(self, digest: int) -> int | None:
        before = self._segment.digest_before
        return None if before is None else add_digests(before, digest)


class _IndexCheck(SegmentEnds):
    def __init__(self, segment: ReplicaSegment, log_start: int) -> None:
        self._log_start = log_start
        # A live broker writes the log first: read after it, an index might name batches that were not read.
        self._indexes = read_indexes(segment)
        super().__init__(segment, has_entries=bool(self._indexes.offsets.rows))
        self._epochs = epoch_checker(EpochCheckpoint(), log_start)
        self._digest_rows: Sequence[tuple[int, int, int]] | None = None  # None: the segment has no digest index
        self._sound = Rows()  # true entries of the offset index
        self._reached = 0  # the position of a batch to which the chain from the last sound entry led
        self._near = 0  # the position of a batch before the one that is looked for next

    def run(self, aligned: list[int]) -> Iterator[Point | Fault]:
        # A window larger than one header would read most of the log: entries are an index interval apart.
        with open_log(self._segment, HEADER_SIZE) as log:
            # A live broker writes an epoch before its first batch (EP-9): read before the log's size, it might miss.
            self._epochs = epoch_checker(self._segment.epochs(), self._log_start)
            yield from self.first(log)
            yield from self._offsets(log)
            yield from self._times(log)
            yield from self._digests(log)
            yield from self.tail(log)
            for offset in aligned:
                yield from self.align(log, offset)
        yield from epoch_faults(self._epochs.finish())

    def see(self, position: int, header: BatchHeader) -> Iterable[Fault]:
        return epoch_faults(self._epochs.see(position, header))

    def _offsets(self, log: LogFile) -> Iterator[Point | Fault]:
        entries, exact_to = self._indexes.offsets, self._indexes.exact_to
        yield from entries.faults
        lies: set[int] = set()  # wrong entries after which right ones look out of order
        for number, (slot, offset, position) in enumerate(entries.rows):
            if number % MAX_HEADERS == 0:
                log.expect([row[2] for row in entries.rows[number : number + MAX_HEADERS]])
            try:
                # An append of several batches (SG-2) ends before the next begins, unless the next entry is wrong.
                end = entries.rows[number + 2][2] if number + 2 < len(entries.rows) else log.size
                if offset <= exact_to:
                    end = position
                at, header = self._batch_of(log, offset, position, end)
            except CorruptRecord as error:
                if self._chain_breaks_at(log, position):
                    yield Fault(Kind.BATCH_HEADER, LOG_SUFFIX, position, offset, offset, -1, error.message)
                else:
                    lies |= {slot} & entries.disordered.keys()
                    yield lie(INDEX_SUFFIX, slot, offset, f"{offset} → {position}: {error.message}")
                continue
            first = log.header(position)  # another batch than `header` for an append of several (SG-2)
            if self._sound and first.base_offset <= self._sound[-1][1]:
                before, said, start = self._sound[-1]
                yield lie(INDEX_SUFFIX, before, said, f"{said} → {start}: that would run into the batch at {position}")
            yield from self.see(position, first)
            if at != position:
                yield from self.see(at, header)
            self._sound.append((slot, offset, position))
            yield self._point(header, slot, position)._replace(value=self._segment.bytes_before + at + header.size)
        yield from entries.out_of_order(lies)

    def _batch_of(self, log: LogFile, offset: int, position: int, end: int) -> tuple[int, BatchHeader]:
        """Return the batch that ends with `offset`, in the chain from `position` to `end`. Raises CorruptRecord."""
        header = log.header(position)
        if not self._segment.base <= header.base_offset <= offset:
            raise CorruptRecord(f"the batch there begins with offset {header.base_offset}")
        at = position
        while header.last_offset < offset and at + header.size < end:
            at += header.size
            header = log.header(at)
        self._require_end(header, offset)
        return at, header

    def _require_end(self, header: BatchHeader, offset: int) -> None:
        _require(header, ends_batch(header, offset, self._segment.cleaned_to))

    def _batch_reaching(self, log: LogFile, offset: int) -> BatchHeader:
        """Move `_near` to the first batch that ends at or after `offset`, and return it. Raises CorruptRecord.

        Offsets must rise from call to call, from `_near` 0 on: no batch is looked at twice.
        """
        start = self._ceiling(offset)
        if log.header(start).base_offset > offset:
            _, start = self.floor(offset)
        self._near = max(self._near, start)
        while (header := log.header(self._near)).last_offset < offset:
            self._near += header.size
        return header

    def _chain_breaks_at(self, log: LogFile, position: int) -> bool:
        """Return True if the batches from the last sound entry lead to `position`, and no batch is there.

        Positions must rise from call to call: no batch is looked at twice, however many entries are wrong.
        """
        at = max(self._reached, self._sound[-1][2] if self._sound else 0)
        while at < position:
            self._reached = at
            try:
                at += log.header(at).size
            except CorruptRecord:
                return False
        return at == position and at + HEADER_SIZE <= log.size and not log.is_batch(at)

    def _times(self, log: LogFile) -> Iterator[Point | Fault]:
        entries, exact_to = self._indexes.times, self._indexes.exact_to
        yield from entries.faults
        lies: set[int] = set()  # wrong entries after which right ones look out of order
        self._near = 0
        for number, (slot, timestamp, offset) in enumerate(entries.rows):
            if number % MAX_HEADERS == 0:
                log.expect([self._ceiling(row[2]) for row in entries.rows[number : number + MAX_HEADERS]])
            try:
                header = self._batch_reaching(log, offset)
                _require(header, times_batch(header, offset, self._segment.cleaned_to, exact=offset <= exact_to))
                if header.max_timestamp != timestamp:
                    raise CorruptRecord(f"the batch's greatest timestamp is {header.max_timestamp}")
            except CorruptRecord as error:
                lies |= {slot} & entries.disordered.keys()
                yield lie(TIME_INDEX_SUFFIX, slot, offset, f"{timestamp} → {offset}: {error.message}")
                continue
            yield Point(TIME, slot, offset, self._near, timestamp)
        yield from entries.out_of_order(lies)

    def _digests(self, log: LogFile) -> Iterator[Point | Fault]:
        entries = self._indexes.digests
        yield from entries.faults
        lies: set[int] = set()  # wrong entries after which right ones look out of order
        doubtful: set[int] = set()
        self._digest_rows = entries.rows if entries.present else None
        self._near = 0
        for slot, offset, digest in entries.rows:
            try:
                self._require_end(self._batch_reaching(log, offset), offset)
            except CorruptRecord as error:
                lies |= {slot} & entries.disordered.keys()
                doubtful.add(slot)
                yield lie(DIGEST_SUFFIX, slot, offset, f"offset {offset}: {error.message}")
            yield Point(DIGEST, slot, offset, -1, self._whole_digest(digest))
        yield from entries.out_of_order(lies)
        yield from self._indexes.alone(self._sound, doubtful)

    def digest_at(self, offset: int) -> int | None:
        if self._digest_rows is None or offset < self._segment.base:
            return None if self._digest_rows is None else 0
        slot = bisect_right(self._digest_rows, offset, key=_offset) - 1
        return self._digest_rows[slot][2] if slot >= 0 and self._digest_rows[slot][1] == offset else None

    def floor(self, offset: int) -> tuple[int, int]:
        slot = bisect_right(self._sound, offset, key=_offset) - 1
        return self._sound[slot][1:] if slot >= 0 else (self._segment.base - 1, 0)

    def _ceiling(self, offset: int) -> int:
        """Return the position of the sound entry at or after `offset`, whose batch usually has it, or of the last."""
        slot = bisect_left(self._sound, offset, key=_offset)
        return self._sound[slot][2] if slot < len(self._sound) else self.floor(offset)[1]


def _require(header: BatchHeader, fits: bool) -> None:
    if not fits:
        raise CorruptRecord(f"the batch there has offsets {header.base_offset} to {header.last_offset}")


def _add(digest: int | None, header: BatchHeader, indexed: int) -> int | None:
    """Add a batch to `digest`, unless that is None, or covers the batch already (offsets up to `indexed`)."""
    if digest is None or header.last_offset <= indexed:
        return digest
    return add_digests(digest, batch_digest(header))
