"""Checks every batch of one segment against its CRC, its neighbours, the indexes and the epoch checkpoint, which must
name the epoch of each (EP-1)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from replog.config.properties import MAX_LONG
from replog.log.epochs import EpochEntry
from replog.log.errors import CorruptRecord
from replog.log.files.names import DIGEST_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import BatchHeader
from replog.log.formats.walk import Break, LogFile
from replog.log.offsets import NO_EPOCH
from replog.log_tools.checker.findings import Fault, Kind
from replog.log_tools.checker.indexes import Indexes, Segment
from replog.log_tools.checker.ticks import Ticks

_start = itemgetter(1)


class EpochRun(NamedTuple):
    """Adjacent batches for which the checkpoint names another epoch."""

    position: int  # the first batch's
    first: int
    last: int
    epoch: int  # the first batch's, and all others' unless the checkpoint lags
    said: str  # the checkpoint's words
    lags: bool  # no fault: the checkpoint will say so later


class EpochChecker:
    """Checks the batches of a replica, or of a part of it, in order. Without entries it finds nothing."""

    def __init__(
        self, entries: Sequence[EpochEntry], log_start: int, *, unclean: bool = False, flushed: int | None = None
    ) -> None:
        """Ignore offsets below the log start, which an `unclean` replica need not have noted: then the entries begin
        with it (EP-5). From `flushed` on the checkpoint may lag behind; None: it is complete."""
        self._entries = entries
        self._log_start = self._begin = log_start
        if unclean and entries:
            self._begin = max(log_start, entries[0][1])
        self._flushed = MAX_LONG if flushed is None else flushed
        self._run: EpochRun | None = None
        self._hidden: EpochRun | None = None  # the last batch, if there may have been an entry for it

    def see(self, position: int, header: BatchHeader) -> Iterator[EpochRun]:
        """Check a batch whose header can be trusted. Yield the run that it ends."""
        if not self._entries:
            return
        base, last, epoch = header.base_offset, header.last_offset, header.leader_epoch
        if last < self._begin:
            yield from self.finish()
            if self._log_start <= last == self._begin - 1 and epoch < self._entries[0][0]:
                self._hidden = EpochRun(position, base, last, epoch, f"no epoch before {self._entries[0]}", lags=False)
            return
        if self._hidden is not None and (epoch, base) == self._entries[0]:
            # A raised log start keeps its epoch's entry. This one begins with its epoch: an earlier one is missing.
            yield self._hidden
        self._hidden = None
        said = self._epoch_at(max(base, self._begin)), self._epoch_at(last)
        if said == (epoch, epoch):
            yield from self.finish()
            return
        lags = base >= self._flushed and max(said[1], self._entries[-1][0]) < epoch
        run = self._run
        if run is not None and run.last + 1 == base and (lags if run.lags else epoch == run.epoch):
            self._run = run._replace(last=last)
            return
        yield from self.finish()
        says = " and ".join("no epoch" if one == NO_EPOCH else f"epoch {one}" for one in sorted(set(said)))
        self._run = EpochRun(position, base, last, epoch, says, lags)

    def finish(self) -> Iterator[EpochRun]:
        """Yield the last run: no more batches follow."""
        self._hidden = None
        if self._run is not None:
            yield self._run
            self._run = None

    def _epoch_at(self, offset: int) -> int:
        slot = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[slot][0] if slot >= 0 else NO_EPOCH


Batch = tuple[int, BatchHeader]  # a sound one, with its position

_position = itemgetter(2)


class SegmentChecker:
    """Checks the batches of one segment in order.

    Without `crc` no payload is read, except that of a batch that does not fit, as it may be damaged."""

    def __init__(self, segment: Segment, indexes: Indexes, epochs: EpochChecker, *, crc: bool) -> None:
        """`indexes` were read before the log was opened, `epochs` after it: a live broker writes them in this order."""
        self._segment = segment
        self._landmarks = indexes.offsets.rows
        self._ticks = Ticks(indexes, segment)
        self._epochs = epochs
        self._crc = crc
        self.next_offset = segment.base  # the offset after the batches so far
        self._before = (-1, 0)  # base offset and CRC of the last batch
        self._behind = 0  # slot of the last right entry of the offset index
        self._rot_end = -1  # the end of the last batch with a wrong CRC, if its length is right

    def run(self, log: LogFile) -> Iterator[Batch | Fault]:
        """Yield the sound batches, and the faults."""
        for item in log.walk(0, self._landmarks):
            yield from self._damaged(log, item) if isinstance(item, Break) else self._batch(log, *item)

    def finish(self, log: LogFile) -> Iterator[Fault]:
        """Yield the last faults at the end of the segment."""
        yield from epoch_faults(self._epochs.finish())
        yield from self._ticks.finish()
        if (gap := gap_behind(self._segment, log.size, self.next_offset)) is not None:
            yield gap

    def _batch(self, log: LogFile, position: int, header: BatchHeader) -> Iterator[Batch | Fault]:
        passed = list(self._ticks.come_to(position))
        yield from passed
        if header.base_offset != self.next_offset:
            repaired = self._misnumbered(log, position, header)
            if repaired is not None:
                detail = f"the header says base offset {header.base_offset}, its neighbours {self.next_offset}"
                yield _rot(Kind.BASE_OFFSET, position, repaired, detail)
                if repaired.last_offset_delta != header.last_offset_delta:
                    detail = "offsets are missing next to the batch"
                    yield Fault(Kind.HOLE, LOG_SUFFIX, position, repaired.base_offset, repaired.last_offset, -1, detail)
                self.next_offset = repaired.next_offset
                self._ticks.lost(repaired.last_offset, position + header.size)
                return
            if (gap := self._gap_before(position, header)) is not None:
                yield gap
                self._ticks.lost(header.base_offset - 1)
        self.next_offset, self._before = header.next_offset, (header.base_offset, header.crc)
        following = self._following(log, position + header.size)
        fits = following is None or missing_from(self._segment, self.next_offset, following) == following
        doubtful = self._crc or bool(passed) or not fits
        rot = self._rot_at(log, position, header) if doubtful else None
        interval = self._ticks.interval
        lies = [] if rot else list(self._ticks.see(position, header))
        if lies and not doubtful:
            rot = self._rot_at(log, position, header)
        if rot:
            yield rot
            return
        yield from lies if self._crc else self._by_rot(log, lies, interval, position)
        yield from epoch_faults(self._epochs.see(position, header))
        yield from self._ticks.see_time_beside(header)
        yield position, header

    def _gap_before(self, position: int, header: BatchHeader) -> Fault | None:
        expected, first = self.next_offset, header.base_offset
        if (missing := missing_from(self._segment, expected, first)) < first:
            detail = f"the offset jumps from {expected} to {first}"
            return Fault(Kind.HOLE, LOG_SUFFIX, position, missing, first - 1, header.leader_epoch, detail)
        if first < expected:
            detail = f"the offset goes back from {expected} to {first}"
            return Fault(Kind.OFFSET_BACK, LOG_SUFFIX, position, first, expected - 1, header.leader_epoch, detail)
        return None

    def _following(self, log: LogFile, end: int) -> int | None:
        """Return the offset behind a batch that ends at `end`: -1 if it cannot be read, None if the log ends."""
        try:
            return self._segment.next_base if end == log.size else log.header(end).base_offset
        except CorruptRecord:
            return -1

    def _rot_at(self, log: LogFile, position: int, header: BatchHeader) -> Fault | None:
        """Return a fault if the batch has a wrong CRC. Its last offset may be wrong, too: unless its number of records
        confirms it, the next batch decides."""
        if (computed := log.crc(position, header)) == header.crc:
            return None
        end = position + header.size
        following = self._following(log, end)
        confirmed = header.records_count == header.last_offset_delta + 1 and header.next_offset < (following or 0)
        if following is not None and following > header.base_offset and not confirmed:
            header = header._replace(last_offset_delta=following - 1 - header.base_offset)
        self.next_offset, self._rot_end = header.next_offset, end
        self._ticks.lost(header.last_offset, end)
        return _wrong_crc(position, header, computed)

    def _by_rot(self, log: LogFile, lies: list[Fault], interval: int, position: int) -> list[Fault]:
        """Replace faults of index entries by those of earlier damaged batches that explain them. A digest is explained
        by any batch since the last entry, a timestamp by the batch that has the greatest."""
        kept = []
        rot: dict[int, Fault] = {}
        for lie in lies:
            suspects = [self._ticks.newest] if lie.file == TIME_INDEX_SUFFIX and self._ticks.newest else []
            if lie.file == DIGEST_SUFFIX:
                suspects = [item for item in log.walk(interval, end=position) if not isinstance(item, Break)]
            rotten = {at: _wrong_crc(at, header, crc) for at, header, crc in _rotten(log, suspects)}
            rot |= rotten
            kept += [] if rotten else [lie]
        return [*rot.values(), *kept]

    def _misnumbered(self, log: LogFile, position: int, header: BatchHeader) -> BatchHeader | None:
        """Return the header with offsets that fit, if its own do not, and there is room for them.

        No CRC covers the base offset (RB-2). Offsets missing next to the batch count as part of it."""
        if (header.base_offset, header.crc) == self._before:
            return None  # it is there twice
        first, count = self.next_offset, header.next_offset - header.base_offset
        following = self._following(log, position + header.size)
        last = first + count - 1 if following is None else following - 1
        if following is None or not first <= following <= (self._segment.next_base or MAX_LONG):
            following, last = self._offset_behind(log, position), first + count - 1
        if following is None and header.base_offset < first:
            return header._replace(base_offset=first)  # nothing follows that contradicts it
        if following is None or first + count > following:
            return None
        if first <= header.base_offset and header.next_offset <= following:
            return None  # only offsets are missing
        return header._replace(base_offset=first, last_offset_delta=last - first)

    def _offset_behind(self, log: LogFile, position: int) -> int | None:
        """Return the offset of a later batch that the offset index points to, or of the next segment.

        Ask for rising positions: no wrong entry is looked at twice."""
        self._behind = max(self._behind, bisect_right(self._landmarks, position, key=_position))
        while self._behind < len(self._landmarks):
            entry = self._landmarks[self._behind]
            if log.is_landmark(entry):
                return log.header(entry[2]).base_offset
            self._behind += 1
        return self._segment.next_base

    def _damaged(self, log: LogFile, damage: Break) -> Iterator[Fault]:
        yield from self._ticks.come_to(damage.position)
        rotten = damage.position == self._rot_end  # a wrong length leads anywhere: that batch is the cause
        first, next_offset = self.next_offset, self._segment.next_base
        if damage.resume is not None:
            next_offset = log.header(damage.resume).base_offset
        else:
            self._ticks.lost(MAX_LONG, MAX_LONG)  # the rest of the segment
            if not rotten and (fault := surplus(self._segment, first, damage)) is not None:
                yield fault
                return
        if damage.resume is None and damage.cut_short and not rotten:
            # The missing bytes show as a gap too, or as the log end offset.
            yield Fault(Kind.TORN_SEGMENT, LOG_SUFFIX, damage.position, first, first, -1, damage.reason)
            return
        last = first if next_offset is None else next_offset - 1
        if last >= first or not rotten:
            yield Fault(Kind.BATCH_HEADER, LOG_SUFFIX, damage.position, first, max(first, last), -1, damage.reason)
        self.next_offset = last + 1 if rotten else max(first, last + 1)  # its last offset may be wrong
        if damage.resume is not None:
            self._ticks.lost(self.next_offset - 1, damage.resume)


def _rotten(log: LogFile, batches: list[tuple[int, BatchHeader]]) -> Iterator[tuple[int, BatchHeader, int]]:
    """Yield the batches with a wrong CRC, and the computed one."""
    for position, header in batches:
        if (computed := log.crc(position, header)) != header.crc:
            yield position, header, computed


def _wrong_crc(position: int, header: BatchHeader, computed: int) -> Fault:
    detail = f"stored CRC {header.crc:08x}, the bytes make {computed:08x}"
    return _rot(Kind.BATCH_CRC, position, header, detail)


def _rot(kind: Kind, position: int, header: BatchHeader, detail: str) -> Fault:
    return Fault(kind, LOG_SUFFIX, position, header.base_offset, header.last_offset, header.leader_epoch, detail)


def epoch_faults(runs: Iterator[EpochRun]) -> Iterator[Fault]:
    """Yield faults for batches whose epoch the checkpoint has wrong (INV-15)."""
    for run in runs:
        if not run.lags:
            detail = f"the batches carry leader epoch {run.epoch}, the epoch checkpoint says {run.said}"
            yield Fault(Kind.EPOCHS, LOG_SUFFIX, run.position, run.first, run.last, run.epoch, detail)


def missing_from(segment: Segment, first: int, end: int) -> int:
    """Return the first missing offset from `first` to `end` that no compaction explains; `end` if there is none."""
    return max(first, min(segment.cleaned_to, end))


def surplus(segment: Segment, expected: int, damage: Break) -> Fault | None:
    """Return the fault of bytes that are no batch, behind batches up to offset `expected`, if no offset is missing."""
    next_base = segment.next_base
    if next_base is None or missing_from(segment, expected, next_base) < next_base:
        return None
    detail = f"no batch is behind the segment's last one, and the file goes on: {damage.reason}"
    return Fault(Kind.SURPLUS, LOG_SUFFIX, damage.position, expected, expected, -1, detail)


def gap_behind(segment: Segment, size: int, expected: int) -> Fault | None:
    """Return the fault of a log of `size` bytes that ends before `expected`, if the next segment begins elsewhere."""
    next_base = segment.next_base
    if next_base is None:
        return None
    detail = f"the segment ends with offset {expected - 1}, the next one begins with {next_base}"
    if (missing := missing_from(segment, expected, next_base)) < next_base:
        return Fault(Kind.HOLE, LOG_SUFFIX, size, missing, next_base - 1, -1, detail)
    if expected > next_base:
        return Fault(Kind.OFFSET_BACK, LOG_SUFFIX, size, next_base, expected - 1, -1, detail)
    return None
