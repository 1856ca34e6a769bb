"""Checks one segment with the checker, and its batches against other files of the partition's directory; each
record, if asked for (`--deep`)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from replog.config.properties import MAX_LONG
from replog.log.epochs import EpochEntry
from replog.log.errors import CorruptSnapshot, InvalidRecord
from replog.log.files.names import DIGEST_SUFFIX, LOG_SUFFIX, segment_file_name
from replog.log.formats.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAX_CODEC,
    TRANSACTIONAL,
    BatchHeader,
)
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT
from replog.log.formats.records import iterate_records
from replog.log.formats.segment_file import SegmentFile, open_file
from replog.log.formats.walk import MAX_BATCH_IN_MEMORY, LogFile
from replog.log.indexes.index import MAX_RELATIVE_OFFSET
from replog.log.offsets import NO_EPOCH, NO_TIMESTAMP
from replog.log.producers.snapshot import read_snapshot
from replog.log_tools.checker.findings import Fault, Finding, Kind
from replog.log_tools.checker.indexes import SUFFIXES, read_indexes
from replog.log_tools.checker.segment import EpochChecker, EpochRun, SegmentChecker
from replog.log_tools.verify.transactions import Producers, TransactionIndexCheck, check_control

KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON


class EpochsVerified:
    """Checks the batches of all segments in order. A run of batches that disagree is one finding."""

    def __init__(
        self, directory: Path, entries: Sequence[EpochEntry] | None, log_start: int, unclean: bool, flushed: int | None
    ) -> None:
        self._path = directory / LEADER_EPOCH_CHECKPOINT
        self._entries = entries
        self._log_start = log_start
        self._flushed = flushed
        self._checker = EpochChecker(entries or (), log_start, unclean=unclean, flushed=flushed)
        self._first_seen: int | None = None  # the first batch with an epoch

    def see(self, position: int, header: BatchHeader) -> Iterator[Finding]:
        """Check a batch whose header can be trusted."""
        if self._first_seen is None and header.leader_epoch != NO_EPOCH and header.last_offset >= self._log_start:
            self._first_seen = header.base_offset
        return map(self._finding, self._checker.see(position, header))

    def _finding(self, run: EpochRun) -> Finding:
        kind, later = (Kind.EPOCHS_BEHIND, " or later") if run.lags else (Kind.EPOCHS, "")
        message = f"{run.said}, and the batches from offset {run.first} to {run.last} have epoch {run.epoch}{later}"
        return kind.at(self._path, message, offset=run.first)

    def finish(self, end_offset: int) -> Iterator[Finding]:
        """Check that epochs begin at most at `end_offset`, where a leader's newest epoch may begin (EP-3)."""
        yield from map(self._finding, self._checker.finish())
        if self._entries is None:
            return
        if not self._entries and self._first_seen is not None:
            lags = self._flushed is not None and self._first_seen >= self._flushed
            kind = Kind.EPOCHS_BEHIND if lags else Kind.EPOCHS
            yield kind.at(self._path, "no leader epoch, and the batches have some")
        for epoch, start in self._entries:
            if start > end_offset:
                message = f"epoch {epoch} begins at {start}, and the log ends at {end_offset}"
                yield Kind.EPOCHS_AHEAD.at(self._path, message, offset=start)


@dataclass
class VerifiedTotals:
    """The amount that was verified: sound batches and their records."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Options:
    deep: bool = False  # decode every record
    compacted: bool = False  # take every log for a cleaned one
    on_bytes: Callable[[int], None] = lambda _: None  # gets the number of bytes of `.log` files that were done


@dataclass
class PartitionProgress:
    """The state that goes from segment to segment of one partition."""

    producers: Producers
    epochs: EpochsVerified
    totals: VerifiedTotals
    options: Options
    unclean: bool  # the broker runs, or did not stop in order: the newest segment's end may be torn
    compacted: bool  # holes are legal, between batches and inside (CL-8)
    snapshots: list[tuple[int, Path]] = field(default_factory=list)  # not yet checked, by offset; the next one last
    end_offset: int = 0  # behind the last batch, or segment, seen
    epoch: int = -1  # the last batch's

    def check_snapshots(self, offset: int) -> Iterator[Finding]:
        """Check the snapshots up to `offset`, which the batches have reached."""
        while self.snapshots and self.snapshots[-1][0] <= offset:
            at, path = self.snapshots.pop()
            try:
                entries = read_snapshot(path)
            except CorruptSnapshot as damage:
                yield Kind.SNAPSHOT.at(path, damage.message)
            except FileNotFoundError:
                pass  # a running broker keeps few
            else:
                faults = self.producers.check_snapshot(entries, at)
                yield from (fault.kind.at(path, fault.detail, offset=fault.first) for fault in faults)

    def add_bytes(self, size: int) -> None:
        self.totals.bytes += size
        self.options.on_bytes(size)


@dataclass(frozen=True)
class LocalSegment:
    """The files of a segment, for the checker."""

    directory: Path
    base: int
    next_base: int | None  # None: the active one
    cleaned_to: int

    def path(self, suffix: str) -> Path:
        return self.directory / segment_file_name(self.base, suffix)

    def open(self, suffix: str) -> AbstractContextManager[SegmentFile]:
        return open_file(self.path(suffix))


def check_segment(directory: Path, base: int, next_base: int | None, progress: PartitionProgress) -> Iterator[Finding]:
    """Check everything in one segment; `next_base` is None for the active one. Raises OSError."""
    with ExitStack() as opened:
        segment = LocalSegment(directory, base, next_base, MAX_LONG if progress.compacted else 0)
        yield from _SegmentCheck(segment, progress, opened).run()


class _SegmentCheck:
    def __init__(self, segment: LocalSegment, progress: PartitionProgress, opened: ExitStack) -> None:
        """Read the indexes before the log is opened, which a running broker writes first."""
        self._segment, self._progress = segment, progress
        self._indexes = read_indexes(segment)
        self._transactions = TransactionIndexCheck(segment, progress.producers, exact=not progress.compacted)
        self._path = segment.path(LOG_SUFFIX)
        self._log = LogFile(opened.enter_context(segment.open(LOG_SUFFIX)))
        # Epochs are judged over all segments of the partition.
        self._checker = SegmentChecker(segment, self._indexes, EpochChecker((), 0), crc=True)
        self._unknown = False  # True if batches before the next one are unknown

    def run(self) -> Iterator[Finding]:
        log, progress, segment = self._log, self._progress, self._segment
        for suffix, index in zip(SUFFIXES, self._indexes, strict=True):
            if not index.present and log.size and suffix != DIGEST_SUFFIX:
                yield Kind.MISSING_INDEX.at(segment.path(suffix), "there is no such file")
        yield from map(self._finding, [*self._indexes.shape_faults(), *self._transactions.faults])
        progress.end_offset = segment.base
        done = last = 0
        for item in self._checker.run(log):
            if isinstance(item, Fault):
                yield self._finding(item)
                continue
            yield from self._batch(*item)
            end = item[0] + item[1].size
            progress.add_bytes(end - done)
            done, last = end, item[1].last_offset
        yield from map(self._finding, self._checker.finish(log))
        progress.add_bytes(log.size - done)
        progress.end_offset = self._checker.next_offset
        digests = self._indexes.digests
        if segment.next_base is not None and digests.present and last > self._indexes.exact_to:
            yield Kind.DIGEST.at(segment.path(DIGEST_SUFFIX), f"no digest at the segment's last offset {last}")
        if not self._unknown:
            yield from map(self._finding, self._transactions.beyond())

    def _finding(self, fault: Fault) -> Finding:
        """Turn a fault of the checker into a finding, which depends on how the broker stopped."""
        kind, active, unclean = fault.kind, self._segment.next_base is None, self._progress.unclean
        if kind is Kind.BATCH_HEADER and self._log.only_zeros(fault.position):
            kind = Kind.TORN_SEGMENT
        if fault.file == LOG_SUFFIX and kind is not Kind.SURPLUS and not (kind is Kind.TORN_SEGMENT and active):
            self._unknown, self._progress.producers.complete = True, False
        if kind is Kind.TORN_SEGMENT and active:
            kind = Kind.UNCLEAN_TAIL if unclean else Kind.TORN_TAIL
        elif kind is Kind.INDEX_BEYOND and active and unclean:
            kind = Kind.INDEX_AHEAD
        elif kind is Kind.PREALLOCATED and not active:
            kind = Kind.NOT_TRIMMED
        position = fault.position if fault.position >= 0 else None
        return kind.at(self._segment.path(fault.file), fault.detail, position=position, offset=fault.first)

    def _batch(self, position: int, header: BatchHeader) -> Iterator[Finding]:
        progress, path = self._progress, self._path
        progress.totals.batches += 1
        progress.totals.records += header.records_count
        if header.leader_epoch < progress.epoch:
            message = f"leader epoch {header.leader_epoch} follows {progress.epoch}"
            yield Kind.EPOCH_BACK.at(path, message, position=position, offset=header.base_offset)
        progress.epoch = header.leader_epoch
        yield from check_header(path, position, header, self._segment.base, compacted=progress.compacted)
        yield from progress.check_snapshots(header.base_offset)
        yield from progress.epochs.see(position, header)
        if self._unknown:
            self._unknown = False
            self._transactions.skip_to(header)
        data = self._log.read(position, header.size) if header.size <= MAX_BATCH_IN_MEMORY else None
        marker = None
        if header.attributes & CONTROL and data is not None:
            marker, wrong = check_control(path, position, header, data)
            yield from wrong
        due = progress.producers.see(header, marker)
        yield from map(self._finding, self._transactions.see(header, marker, due))
        if progress.options.deep and data is None:
            message = f"a batch of {header.size} bytes"
            yield Kind.NOT_DECODED.at(path, message, position=position, offset=header.base_offset)
        elif progress.options.deep and data is not None:
            yield from check_records(path, position, header, data, compacted=progress.compacted)


def check_header(path: Path, position: int, header: BatchHeader, base: int, *, compacted: bool) -> Iterator[Finding]:
    """Check a sound batch in the segment of offset `base`."""
    wrong = []
    if header.last_offset - base > MAX_RELATIVE_OFFSET:
        message = f"offset {header.last_offset} is more than {MAX_RELATIVE_OFFSET} above the segment's {base} (IX-4)"
        wrong.append((Kind.OUTSIDE_SEGMENT, message))
    if header.records_count != header.last_offset_delta + 1 and not compacted:
        wrong.append((Kind.BATCH_COUNT, f"{header.records_count} records in {header.last_offset_delta + 1} offsets"))
    if header.attributes & ~KNOWN_ATTRIBUTES or header.attributes & CODEC_MASK > MAX_CODEC:
        wrong.append((Kind.UNKNOWN_ATTRIBUTES, f"attributes {header.attributes & 0xFFFF:#06x}"))
    for kind, message in wrong:
        yield kind.at(path, message, position=position, offset=header.base_offset)


def check_records(
    path: Path, position: int, header: BatchHeader, data: memoryview, *, compacted: bool
) -> Iterator[Finding]:
    """Check that records decompress, decode (RB-3), and have rising offsets inside of the batch, and its timestamps.

    With LogAppendTime all have the batch's (RB-4); else the greatest of them is the batch's."""
    offset, greatest = header.base_offset - 1, NO_TIMESTAMP
    try:
        for record in iterate_records(data, header):
            if not offset < record.offset <= header.last_offset:
                raise InvalidRecord(
                    f"record of offset {record.offset} after {offset} in a batch to {header.last_offset}"
                )
            offset = record.offset
            greatest = max(greatest, record.timestamp)
    except InvalidRecord as damage:
        yield Kind.RECORDS.at(path, damage.message, position=position, offset=offset + 1)
        return
    if offset != header.last_offset and not compacted:
        message = f"the last record has offset {offset}, the batch says {header.last_offset}"
        yield Kind.RECORDS.at(path, message, position=position, offset=offset)
    if header.records_count and greatest != header.max_timestamp and not header.attributes & LOG_APPEND_TIME:
        message = f"the greatest timestamp is {greatest}, the batch says {header.max_timestamp}"
        yield Kind.TIMESTAMPS.at(path, message, position=position, offset=header.base_offset)
