"""The deep check of one segment: every batch against its CRC, its neighbours, the indexes and the epoch checkpoint."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from replog.config import MAX_LONG
from replog.log.batch import HEADER_SIZE, BatchHeader
from replog.log.digest import add_digests, batch_digest
from replog.log.errors import CorruptRecord
from replog.log.files import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.index import DigestIndex, OffsetIndex, TimeIndex
from spark_jobs.replicas.files import EPOCH_CACHE_LIE, EpochCheckpoint, Segment
from spark_jobs.replicas.scan import (
    BIT_ROT,
    GAP,
    INDEX_LIE,
    MAX_FAULTS,
    WINDOW,
    Damage,
    Entries,
    Fault,
    LogFile,
    capped,
    open_log,
    read_entries,
)

_start = _first = itemgetter(1)
_second = itemgetter(2)


class Batch(NamedTuple):
    """A sound batch."""

    position: int
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    size: int


class EpochCheck:
    """Batches against the epoch checkpoint (INV-15); one fault for each run of batches that disagree."""

    def __init__(self, checkpoint: EpochCheckpoint, log_start: int) -> None:
        self._entries = checkpoint.entries if checkpoint.fault is None else ()
        self._usable = checkpoint.fault is None and bool(checkpoint.entries)
        self._log_start = log_start
        self._run: Fault | None = None

    def see(self, position: int, header: BatchHeader) -> Iterator[Fault]:
        """Yields the run that this batch ends."""
        if not self._usable:
            return
        if header.last_offset < self._log_start:
            yield from self.finish()
            return
        first = self._epoch_at(max(header.base_offset, self._log_start))
        last = self._epoch_at(header.last_offset)
        if first == header.leader_epoch == last:
            yield from self.finish()
            return
        run = self._run
        if run is not None and run.epoch == header.leader_epoch and run.last + 1 == header.base_offset:
            self._run = run._replace(last=header.last_offset)
            return
        yield from self.finish()
        says = "no epoch" if first is None else f"epoch {first}" if first == last else f"epochs {first} and {last}"
        self._run = Fault(
            EPOCH_CACHE_LIE,
            LOG_SUFFIX,
            position,
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            f"the batches carry leader epoch {header.leader_epoch}, the epoch checkpoint says {says}",
        )

    @property
    def settled(self) -> bool:
        return self._run is None

    def finish(self) -> Iterator[Fault]:
        if self._run is not None:
            yield self._run
            self._run = None

    def _epoch_at(self, offset: int) -> int | None:
        slot = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[slot][0] if slot >= 0 else None


class Indexes(NamedTuple):
    """The entries of a segment's indexes."""

    offsets: Entries
    times: Entries
    digests: Entries

    def shape_faults(self) -> Iterator[Fault]:
        for entries in self:
            yield from entries.faults

    def from_offset(self, slot: int, offset: int) -> list[int]:
        """How many entries each index has before entry `slot` of the offset index, whose batch begins with `offset`."""
        return [
            slot,
            bisect_left(self.times.rows, offset, key=_second),
            bisect_left(self.digests.rows, offset, key=_first),
        ]


def read_indexes(segment: Segment) -> Indexes:
    """To be called before the log is opened: a live broker writes it first."""
    return Indexes(*(read_index(segment, suffix) for suffix in LAYOUTS))


class _Ticks:
    """The entries of a segment's indexes, ticked off as its batches go by."""

    def __init__(self, indexes: Indexes, base: int) -> None:
        self._indexes = indexes
        self._offsets, self._times, self._digests = (entries.rows for entries in indexes)
        self._next = [0, 0, 0]
        self._met = [0, 0, 0]  # entries before these have been looked at, if not skipped
        self._own_from = [-1, -1, -1]  # slots: what is said of entries before these, somebody else says
        self._open: tuple[int, int, int] | None = None  # the offset entry whose batch, or append, has begun
        self._max_timestamp = -1
        self._time_known = True  # that timestamp is the greatest so far, whatever there was before the walk began
        self._digest: int | None = 0  # what an entry should say here, if the entry before it is right
        self._other: int | None = None  # what it should say if that entry is not
        self._digest_known = True  # the two do not depend on what there was before the walk began
        self._digest_from = base
        self._lies: dict[str, set[int]] = {suffix: set() for suffix in LAYOUTS}  # that others are out of order behind
        self._disordered = {suffix: entries.disordered for suffix, entries in zip(LAYOUTS, indexes, strict=True)}

    def begin(self, slot: int, offset: int) -> None:
        """Begin at entry `slot` of the offset index, whose batch begins with `offset`."""
        self._next = self._indexes.from_offset(slot, offset)
        self._met = list(self._next)
        self._time_known = self._digest_known = False
        self._digest = None
        self._digest_from = offset

    @property
    def known(self) -> bool:
        """Whether nothing that is said from here on depends on what there was before the walk began."""
        times, digests = (self._next[1] < len(self._times), self._next[2] < len(self._digests))
        return self._open is None and (self._time_known or not times) and (self._digest_known or not digests)

    def lost(self, last: int, end: int = 0) -> None:
        """Batches up to offset `last`, or position `end`, could not be read: nothing can be said of entries for them.

        The entry of an append that begins there has the offset of a later batch (SG-2).
        """
        self._open = None
        self._digest = self._other = None
        self._digest_known = False
        self._digest_from = last + 1
        for kind, (rows, key) in enumerate(((self._offsets, _first), (self._times, _second), (self._digests, _first))):
            self._next[kind] = max(self._met[kind], bisect_right(rows, last, key=key))
        self._next[0] = max(self._next[0], bisect_left(self._offsets, end, key=_second))

    def see(self, position: int, header: BatchHeader) -> Iterator[Fault]:
        yield from self._see_offset(position, header)
        yield from self._see_time(header)
        yield from self._see_digest(header)
        self._met = list(self._next)

    def finish(self) -> Iterator[Fault]:
        """Entries that no batch has met, no more of them than are listed, and those that are out of order."""
        offsets, times, digests = (
            rows[first : first + MAX_FAULTS]
            for rows, first in zip((self._offsets, self._times, self._digests), self._next, strict=True)
        )
        for slot, offset, position in [*([self._open] if self._open else []), *offsets]:
            yield self._lie(INDEX_SUFFIX, slot, offset, f"{offset} → {position} lies beyond the last batch")
        for slot, timestamp, offset in times:
            yield self._lie(TIME_INDEX_SUFFIX, slot, offset, f"{timestamp} → {offset} lies beyond the last batch")
        for slot, offset, _ in digests:
            yield self._lie(DIGEST_SUFFIX, slot, offset, f"offset {offset} lies beyond the last batch")
        yield from self.leave([len(entries.rows) for entries in self._indexes])

    def leave(self, following: list[int]) -> Iterator[Fault]:
        """Those out of order behind the entries that were ours, up to those that are `following`."""
        ends = self._slots(following)
        for lies, entries, first, end in zip(self._lies.values(), self._indexes, self._own_from, ends, strict=True):
            yield from entries.out_of_order(lies, first, end)

    def own(self, following: list[int]) -> None:
        """What is said of entries before `following`, somebody else says."""
        self._own_from = self._slots(following)

    def _slots(self, following: list[int]) -> list[int]:
        pairs = zip(following, self._indexes, strict=True)
        return [entries.rows[first][0] if first < len(entries.rows) else MAX_LONG for first, entries in pairs]

    def _lie(self, suffix: str, slot: int, offset: int, detail: str) -> Fault:
        if slot in self._disordered[suffix]:
            self._lies[suffix].add(slot)
        return Fault(INDEX_LIE, suffix, slot * LAYOUTS[suffix][0].size, offset, offset, -1, f"entry {slot}: {detail}")

    def _see_offset(self, position: int, header: BatchHeader) -> Iterator[Fault]:
        rows = self._offsets
        while self._next[0] < len(rows) and rows[self._next[0]][2] <= position:
            slot, offset, indexed = entry = rows[self._next[0]]
            self._next[0] += 1
            if indexed < position:
                yield self._lie(INDEX_SUFFIX, slot, offset, f"{offset} → {indexed}: no batch begins there")
            else:
                self._open = entry
        if self._open is not None and header.last_offset >= self._open[1]:
            slot, offset, indexed = self._open
            self._open = None
            if header.last_offset > offset:
                detail = (
                    f"{offset} → {indexed}: the batch there has offsets {header.base_offset} to {header.last_offset}"
                )
                yield self._lie(INDEX_SUFFIX, slot, offset, detail)

    def _see_time(self, header: BatchHeader) -> Iterator[Fault]:
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        rows = self._times
        while self._next[1] < len(rows) and rows[self._next[1]][2] <= header.last_offset:
            slot, timestamp, offset = rows[self._next[1]]
            self._next[1] += 1
            self._time_known = True
            if offset != header.last_offset:
                yield self._lie(TIME_INDEX_SUFFIX, slot, offset, f"{timestamp} → {offset}: no batch ends there")
            elif timestamp != header.max_timestamp or timestamp != self._max_timestamp:
                detail = (
                    f"{timestamp} → {offset}: the batch's greatest timestamp is {header.max_timestamp}, "
                    f"the greatest so far {self._max_timestamp}"
                )
                self._max_timestamp = min(self._max_timestamp, timestamp)  # say it once
                yield self._lie(TIME_INDEX_SUFFIX, slot, offset, detail)

    def _see_digest(self, header: BatchHeader) -> Iterator[Fault]:
        """A digest that is off once may be off for good (a changed batch) or once (a changed entry): allow for both.

        Entries are compared with the entries before them, so that what is said of a part of a segment depends on
        little of what there is before it.
        """
        digest = batch_digest(header)
        self._digest = None if self._digest is None else add_digests(self._digest, digest)
        self._other = None if self._other is None else add_digests(self._other, digest)
        while self._next[2] < len(self._digests) and self._digests[self._next[2]][1] <= header.last_offset:
            slot, offset, said = self._digests[self._next[2]]
            self._next[2] += 1
            if offset != header.last_offset:
                yield self._lie(DIGEST_SUFFIX, slot, offset, f"offset {offset}: no batch ends with it")
                continue
            if self._digest is not None and said not in (self._digest, self._other):
                self._other = self._digest if self._other is None else self._other
                detail = f"digest at offset {offset} is {said:016x}, the batches make {self._other:016x}"
                yield self._lie(DIGEST_SUFFIX, slot, offset, detail)._replace(first=self._digest_from)
            else:
                self._digest_known = self._digest is not None
                self._other = None
            self._digest = said
            self._digest_from = offset + 1


LAYOUTS = {
    INDEX_SUFFIX: (OffsetIndex.layout, 0),
    TIME_INDEX_SUFFIX: (TimeIndex.layout, 1),
    DIGEST_SUFFIX: (DigestIndex.layout, 0),
}


def read_index(segment: Segment, suffix: str) -> Entries:
    """The entries of one of the segment's indexes."""
    layout, field = LAYOUTS[suffix]
    return read_entries(segment, suffix, layout, field)


def check_segment(segment: Segment, log_start: int, *, crc: bool) -> Iterator[Batch | Fault]:
    """Every sound batch, and every fault of the segment's log and indexes. Raises OSError if a file cannot be read.

    Without `crc` no payload is read.
    """
    return capped(_whole(segment, log_start, crc))


def _whole(segment: Segment, log_start: int, crc: bool) -> Iterator[Batch | Fault]:
    indexes = read_indexes(segment)
    yield from indexes.shape_faults()
    with open_log(segment, WINDOW if crc else HEADER_SIZE) as log:
        # Read after the log's size is known: a live broker writes an epoch before its first batch (EP-9).
        walk = Walk(segment, log_start, indexes, segment.epochs(), crc=crc)
        yield from walk.run(log, 0)
        yield from walk.finish(log)


class Walk:
    """Goes by the batches of one segment, from its beginning or from where `begin` says."""

    def __init__(
        self, segment: Segment, log_start: int, indexes: Indexes, checkpoint: EpochCheckpoint, *, crc: bool
    ) -> None:
        self._segment = segment
        self._landmarks = indexes.offsets.rows
        self._indexes = _Ticks(indexes, segment.base)
        self._epochs = EpochCheck(checkpoint, log_start)
        self._crc = crc
        self._expected = segment.base
        self._rot: tuple[int, BatchHeader, str] | None = None  # a batch with a wrong CRC: even its last offset may lie

    def begin(self, slot: int, offset: int) -> None:
        """Begin at the batch of entry `slot` of the offset index, which begins with `offset`."""
        self._expected = offset
        self._indexes.begin(slot, offset)

    def has_come_to(self, offset: int) -> bool:
        """Whether it expects `offset` next, whatever there was before it began, and has nothing left to say."""
        return self._expected == offset and self._rot is None and self._epochs.settled and self._indexes.known

    def own(self, following: list[int]) -> None:
        """What is said of entries before `following` (`Indexes.from_offset`), somebody else says."""
        self._indexes.own(following)

    def run(self, log: LogFile, position: int, end: int | None = None) -> Iterator[Batch | Fault]:
        """The batches from `position` to `end`."""
        for item in log.walk(position, self._landmarks, end):
            if isinstance(item, Damage):
                yield from self._damaged(log, item)
            else:
                yield from self._batch(log, *item)

    def leave(self, following: list[int]) -> Iterator[Fault]:
        """Where somebody else goes on, who begins with the entries `following` and has nothing to settle."""
        yield from self._indexes.leave(following)

    def finish(self, log: LogFile) -> Iterator[Fault]:
        """At the end of the segment."""
        yield from self._settle_rot(None)
        yield from self._epochs.finish()
        yield from self._indexes.finish()
        next_base = self._segment.next_base
        if next_base is not None and self._expected < next_base:
            detail = f"the segment ends with offset {self._expected - 1}, the next one begins with {next_base}"
            yield Fault(GAP, LOG_SUFFIX, log.size, self._expected, next_base - 1, -1, detail)

    def _batch(self, log: LogFile, position: int, header: BatchHeader) -> Iterator[Batch | Fault]:
        yield from self._settle_rot(header.base_offset)
        if header.base_offset != self._expected:
            repaired = self._misnumbered(log, position, header)
            if repaired is not None:
                detail = f"the header says base offset {header.base_offset}, its neighbours {self._expected}"
                yield _rot(position, repaired, detail)
                self._expected = repaired.next_offset
                self._indexes.lost(repaired.last_offset, position + header.size)
                return
            last = max(header.base_offset - 1, self._expected)
            verb = "jumps" if header.base_offset > self._expected else "goes back"
            detail = f"the offset {verb} from {self._expected} to {header.base_offset}"
            yield Fault(GAP, LOG_SUFFIX, position, self._expected, last, header.leader_epoch, detail)
            self._indexes.lost(header.base_offset - 1)
        self._expected = header.next_offset
        if self._crc and (computed := log.crc(position, header)) != header.crc:
            self._rot = position, header, f"stored CRC {header.crc:08x}, the bytes make {computed:08x}"
            self._indexes.lost(header.last_offset, position + header.size)
            return
        yield from self._indexes.see(position, header)
        yield from self._epochs.see(position, header)
        yield Batch(position, header.base_offset, header.last_offset, header.leader_epoch, header.crc, header.size)

    def _misnumbered(self, log: LogFile, position: int, header: BatchHeader) -> BatchHeader | None:
        """The header with the base offset that both neighbours imply, if they do (the CRC does not cover it, RB-2)."""
        repaired = header._replace(base_offset=self._expected)
        end = position + header.size
        try:
            follower: int | None = log.header(end).base_offset
        except CorruptRecord:
            follower = self._segment.next_base if end == log.size else None
        return repaired if follower == repaired.next_offset else None

    def _settle_rot(self, next_base: int | None) -> Iterator[Fault]:
        if self._rot is None:
            return
        position, header, detail = self._rot
        self._rot = None
        if next_base is not None and next_base > header.base_offset:
            header = header._replace(last_offset_delta=next_base - 1 - header.base_offset)
        self._expected = header.next_offset
        yield _rot(position, header, detail)

    def _damaged(self, log: LogFile, damage: Damage) -> Iterator[Fault]:
        rotten = self._rot is not None  # a wrong length leads into nowhere: that batch is the cause
        yield from self._settle_rot(None)
        first, next_offset = self._expected, self._segment.next_base
        if damage.resume is not None:
            next_offset = log.header(damage.resume).base_offset
        else:
            self._indexes.lost(MAX_LONG, MAX_LONG)  # the rest of the segment
        if damage.resume is None and damage.cut_short:
            return  # the log ends here: what is missing shows as a gap, or as the log end offset
        last = first if next_offset is None else next_offset - 1
        if last >= first or not rotten:
            yield Fault(BIT_ROT, LOG_SUFFIX, damage.position, first, max(first, last), -1, damage.reason)
        self._expected = max(first, last + 1)
        if damage.resume is not None:
            self._indexes.lost(self._expected - 1, damage.resume)


def _rot(position: int, header: BatchHeader, detail: str) -> Fault:
    return Fault(BIT_ROT, LOG_SUFFIX, position, header.base_offset, header.last_offset, header.leader_epoch, detail)
