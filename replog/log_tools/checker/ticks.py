"""Ticks off the entries of a segment's indexes as its batches go by."""

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator
from operator import itemgetter

from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import BatchHeader, add_digests, batch_digest
from replog.log.indexes.entries import LAYOUTS
from replog.log.offsets import NO_TIMESTAMP
from replog.log_tools.checker.findings import Fault, Kind
from replog.log_tools.checker.indexes import MAX_FAULTS, SUFFIXES, Indexes, Segment, ends_batch, lie, times_batch

_first = itemgetter(1)
_second = itemgetter(2)


class Ticks:
    """Finds the faults of index entries, each as soon as it is certain."""

    def __init__(self, indexes: Indexes, segment: Segment) -> None:
        self._indexes = indexes
        self._cleaned_to = segment.cleaned_to
        self._exact_to = indexes.exact_to
        self._offsets, self._times, self._digests = (entries.rows for entries in indexes)
        self._next = [0, 0, 0]
        self._met = 0  # earlier entries of the offset index have been looked at, if not skipped
        self._open: tuple[int, int, int] | None = None  # the offset entry whose batch, or append, has begun
        self._max_timestamp = -1
        self._indexed = False  # replog has indexed the last batch by offset
        self._latest: int | None = NO_TIMESTAMP  # the time of the last time entry; None: unknown
        self.newest: tuple[int, BatchHeader] | None = None  # the batch with the greatest timestamp
        self.interval = 0  # position of the first batch since the last digest entry
        self._digest: int | None = 0  # the right value of an entry here, if the entry before it is right
        self._other: int | None = None  # the right value if that entry is wrong
        self._digest_from = segment.base
        self._reached = -1  # offset of the last digest entry that was seen
        self._doubtful: set[int] = set()  # slots of digest entries that are wrong, or near unknown batches
        self._alone: list[tuple[int, int, int]] = []  # offset entries that have no digest beside them
        self._lies: dict[str, set[int]] = {suffix: set() for suffix in SUFFIXES}  # wrong slots that disorder others
        self._disordered = {suffix: entries.disordered for suffix, entries in zip(SUFFIXES, indexes, strict=True)}

    def lost(self, last: int, end: int = 0) -> None:
        """Skip the entries for batches up to offset `last`, which could not be read, or are gone.

        Entries of the offset index are found by the position `end` of the next batch, if it is given: an entry for an
        append that begins there has the offset of a later batch (SG-2), and `last` may be wrong. Where the offset
        falls, the time and digest index go back, too: a walk that begins there must find the same."""
        self._open = self._latest = None
        self._digest = self._other = None
        self._digest_from = last + 1
        rows, digests = self._offsets, self._next[2]
        self._next = [
            max(self._met, bisect_left(rows, end, key=_second) if end else bisect_right(rows, last, key=_first)),
            bisect_right(self._times, last, key=_second),
            bisect_right(self._digests, last, key=_first),
        ]
        if digests < self._next[2]:
            self._doubtful |= {self._digests[digests][0], self._digests[self._next[2] - 1][0]}

    def see(self, position: int, header: BatchHeader) -> Iterator[Fault]:
        if header.max_timestamp > self._max_timestamp:
            self.newest = position, header
        indexed = yield from self._see_offset(position, header)
        yield from self._see_time(header)
        digests = self._next[2]
        yield from self._see_digest(header)
        if digests < self._next[2]:
            self.interval = position + header.size
        if indexed is not None and self._reached != indexed[1] <= self._exact_to:
            self._alone.append(indexed)
        self._indexed = indexed is not None and indexed[1] <= self._exact_to
        self._met = self._next[0]

    def see_time_beside(self, header: BatchHeader) -> Iterator[Fault]:
        """Require an entry for the greatest timestamp so far, if replog has indexed the last batch by offset."""
        latest = self._latest if self._indexed and self._indexes.times.present else None
        if latest is not None and latest < self._max_timestamp:
            position, last = self._next[1] * LAYOUTS[TIME_INDEX_SUFFIX].size, header.last_offset
            detail = f"no entry has the greatest timestamp up to offset {last}, {self._max_timestamp}"
            yield Fault(Kind.NO_TIME_ENTRY, TIME_INDEX_SUFFIX, position, last, last, -1, detail)
            self._latest = None

    def finish(self) -> Iterator[Fault]:
        """Yield faults for entries that no batch has met, as many as are listed, and for those out of order."""
        begun = [self._open] if self._open else []
        for suffix, entries, first in zip(SUFFIXES, self._indexes, self._next, strict=True):
            listed = entries.rows[first : first + MAX_FAULTS]
            for slot, *fields in [*begun, *listed] if suffix == INDEX_SUFFIX else listed:
                what = f"offset {fields[0]}" if suffix == DIGEST_SUFFIX else f"{fields[0]} → {fields[1]}"
                offset = fields[1] if suffix == TIME_INDEX_SUFFIX else fields[0]
                yield self._lie(suffix, slot, offset, f"{what} is beyond the last batch", Kind.INDEX_BEYOND)
        for lies, entries in zip(self._lies.values(), self._indexes, strict=True):
            yield from entries.out_of_order(lies)
        yield from self._indexes.alone(self._alone, self._doubtful)

    def _lie(self, suffix: str, slot: int, offset: int, detail: str, kind: Kind = Kind.INDEX_ENTRY) -> Fault:
        if slot in self._disordered[suffix]:
            self._lies[suffix].add(slot)
        if suffix == DIGEST_SUFFIX:
            self._doubtful.add(slot)
        return lie(suffix, slot, offset, detail, kind)

    def come_to(self, position: int) -> Iterator[Fault]:
        """Yield faults for offset entries before `position`: no batch begins between the last one and that."""
        rows = self._offsets
        while self._next[0] < len(rows) and rows[self._next[0]][2] < position:
            slot, offset, indexed = rows[self._next[0]]
            self._next[0] += 1
            yield self._lie(INDEX_SUFFIX, slot, offset, f"{offset} → {indexed}: no batch begins there")

    def _see_offset(self, position: int, header: BatchHeader) -> Generator[Fault, None, tuple[int, int, int] | None]:
        """Check the offset index, and return the entry that this batch ends, if it is right."""
        rows = self._offsets
        if self._next[0] < len(rows) and rows[self._next[0]][2] == position:
            slot, offset, indexed = entry = rows[self._next[0]]
            self._next[0] += 1
            if self._open is not None:
                before, said, start = self._open
                detail = f"{said} → {start}: that would run into the batch at {indexed}"
                yield self._lie(INDEX_SUFFIX, before, said, detail)
            self._open = entry
        # An entry of ours is for the batch that it points at, one of Kafka's for an append of several (SG-2).
        if self._open is not None and (self._open[1] <= self._exact_to or header.last_offset >= self._open[1]):
            slot, offset, indexed = entry = self._open
            self._open = None
            if not ends_batch(header, offset, self._cleaned_to):
                detail = (
                    f"{offset} → {indexed}: the batch there has offsets {header.base_offset} to {header.last_offset}"
                )
                yield self._lie(INDEX_SUFFIX, slot, offset, detail)
                return None
            return entry
        return None

    def _see_time(self, header: BatchHeader) -> Iterator[Fault]:
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        rows = self._times
        while self._next[1] < len(rows) and rows[self._next[1]][2] <= header.last_offset:
            slot, timestamp, offset = rows[self._next[1]]
            self._next[1] += 1
            self._latest = None
            exact = offset <= self._exact_to
            if not times_batch(header, offset, self._cleaned_to, exact=exact):
                missing = "no batch ends there" if exact else "no batch has that offset"
                yield self._lie(TIME_INDEX_SUFFIX, slot, offset, f"{timestamp} → {offset}: {missing}")
            elif timestamp != header.max_timestamp or timestamp < self._max_timestamp:
                detail = (
                    f"{timestamp} → {offset}: the batch's greatest timestamp is {header.max_timestamp}, "
                    f"the greatest so far {self._max_timestamp}"
                )
                self._max_timestamp = min(self._max_timestamp, timestamp)  # otherwise later entries repeat the fault
                yield self._lie(TIME_INDEX_SUFFIX, slot, offset, detail)
            else:
                self._latest = timestamp

    def _see_digest(self, header: BatchHeader) -> Iterator[Fault]:
        """Check the digests. One that is wrong may stay so (a changed batch) or not (a changed entry): allow for both.

        Entries are compared with the entries before them, so that the faults of a part of a segment depend on little of
        what there is before it."""
        digest = batch_digest(header)
        self._digest = None if self._digest is None else add_digests(self._digest, digest)
        self._other = None if self._other is None else add_digests(self._other, digest)
        while self._next[2] < len(self._digests) and self._digests[self._next[2]][1] <= header.last_offset:
            slot, offset, said = self._digests[self._next[2]]
            self._next[2] += 1
            self._reached = offset
            if offset != header.last_offset:
                yield self._lie(DIGEST_SUFFIX, slot, offset, f"offset {offset}: no batch ends with it", Kind.DIGEST)
                continue
            if self._digest is not None and said not in (self._digest, self._other):
                self._other = self._digest if self._other is None else self._other
                detail = f"digest at offset {offset} is {said:016x}, the batches make {self._other:016x}"
                yield self._lie(DIGEST_SUFFIX, slot, offset, detail, Kind.DIGEST)._replace(first=self._digest_from)
            else:
                self._other = None
            self._digest = said
            self._digest_from = offset + 1
