"""One segment: its batches, and all that is said of them beside."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from replog.log.files.names import (
    DIGEST_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from replog.log.formats.batch import CONTROL, BatchHeader
from replog.log.formats.segment_file import SegmentFile, open_file
from replog.log.formats.walk import MAX_BATCH_IN_MEMORY, Break, LogFile
from replog.log.indexes.entries import IndexFile, Rows
from replog.log.tools.verify.batches import Continuity, check_range
from replog.log.tools.verify.epochs import EpochsVerified
from replog.log.tools.verify.findings import Finding, Kind
from replog.log.tools.verify.indexes import DigestCheck, OffsetIndexCheck, TimeIndexCheck
from replog.log.tools.verify.records import check_records
from replog.log.tools.verify.transactions import Producers, TransactionIndexCheck, check_control
from replog.properties import MAX_LONG


@dataclass
class VerifiedTotals:
    """How much was verified."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass
class PartitionProgress:
    """The state that goes from segment to segment of one partition."""

    continuity: Continuity
    producers: Producers
    epochs: EpochsVerified
    totals: VerifiedTotals
    on_bytes: Callable[[int], None]
    deep: bool
    unclean: bool  # the broker runs, or did not stop in order: the newest segment's end may be torn
    snapshots: list[tuple[int, Path]] = field(default_factory=list)  # to come, by offset; the next one last

    def check_snapshots(self, offset: int) -> Iterator[Finding]:
        """Those of the state before `offset`, which is now."""
        while self.snapshots and self.snapshots[-1][0] <= offset:
            at, path = self.snapshots.pop()
            yield from self.producers.check_snapshot(path, at)


def check_segment(directory: Path, base: int, next_base: int | None, progress: PartitionProgress) -> Iterator[Finding]:
    """Everything about one segment; `next_base` is None for the active one. Raises OSError."""
    with ExitStack() as opened:
        yield from _SegmentCheck(directory, base, next_base, progress, opened).run()


class _SegmentCheck:
    def __init__(
        self, directory: Path, base: int, next_base: int | None, progress: PartitionProgress, opened: ExitStack
    ) -> None:
        """Indexes are opened before the log, which a running broker writes first."""

        def path(suffix: str) -> Path:
            return directory / segment_file_name(base, suffix)

        def opened_file(suffix: str) -> SegmentFile | None:
            try:
                return opened.enter_context(open_file(path(suffix)))
            except FileNotFoundError:
                return None

        self._base, self._next_base, self._progress = base, next_base, progress
        compacted = progress.continuity.compacted
        cleaned_to = MAX_LONG if compacted else 0
        digest = opened_file(DIGEST_SUFFIX)
        exact = digest is not None
        self._digests = DigestCheck(path(DIGEST_SUFFIX), digest, base) if digest is not None else None
        self._offsets = OffsetIndexCheck(
            path(INDEX_SUFFIX), opened_file(INDEX_SUFFIX), base, cleaned_to=cleaned_to, exact=exact
        )
        self._times = TimeIndexCheck(
            path(TIME_INDEX_SUFFIX), opened_file(TIME_INDEX_SUFFIX), base, cleaned_to=cleaned_to, exact=exact
        )
        self._transactions = TransactionIndexCheck(
            path(TRANSACTION_INDEX_SUFFIX),
            opened_file(TRANSACTION_INDEX_SUFFIX),
            base,
            progress.producers,
            exact=not compacted,
        )
        self._landmarks = Rows()  # those of the offset index's entries that rise
        index, before = opened_file(INDEX_SUFFIX), (-1, -1)
        for slot, (offset, position) in enumerate(IndexFile(index, INDEX_SUFFIX) if index is not None else ()):
            if offset > before[0] and position > before[1]:
                before = offset, position
                self._landmarks.append((slot, base + offset, position))
        self._path = path(LOG_SUFFIX)
        self._log = LogFile(opened.enter_context(open_file(self._path)))
        self._unknown = False  # what lies before the next batch
        self._torn = False

    @property
    def _active(self) -> bool:
        return self._next_base is None

    def run(self) -> Iterator[Finding]:
        for check in (self._offsets, self._times):
            if check.missing and self._log.size:
                yield Kind.MISSING_INDEX.at(check.path, "there is no such file")
        for index in self._indexes():
            yield from index.check_shape(active=self._active)
        yield from self._progress.continuity.see_segment(self._path, self._base)
        for step in self._log.walk(0, self._landmarks):
            if isinstance(step, Break):
                yield from self._break(step)
            else:
                yield from self._batch(*step)
        beyond = Kind.INDEX_AHEAD if self._active and self._progress.unclean else Kind.INDEX_BEYOND
        if self._unknown and not self._torn:
            return  # nothing is known of what the rest of the entries speak of
        for index in self._indexes():
            yield from index.finish(beyond)
        if self._digests is not None and not self._active:
            yield from self._digests.finish_sealed()

    def _indexes(self) -> list[OffsetIndexCheck | TimeIndexCheck | TransactionIndexCheck | DigestCheck]:
        digests = [self._digests] if self._digests is not None else []
        return [self._offsets, self._times, self._transactions, *digests]

    def _break(self, damage: Break) -> Iterator[Finding]:
        end = self._log.size if damage.resume is None else damage.resume
        size = max(0, end - damage.position)
        self._progress.on_bytes(size)
        self._progress.totals.bytes += size
        self._unknown = True
        kind, message = Kind.BATCH_HEADER, f"{size} bytes that are no batch: {damage.reason}"
        zeros = damage.resume is None and self._log.only_zeros(damage.position)
        if damage.resume is None:
            self._offsets.lose()
        if damage.resume is None and (damage.cut_short or zeros):
            self._torn = self._active
            if not self._active:
                kind = Kind.TORN_SEGMENT
            else:
                kind = Kind.UNCLEAN_TAIL if self._progress.unclean else Kind.TORN_TAIL
            message = f"{size} bytes of zeros at the end" if zeros else f"part of a batch: {damage.reason}"
        offset = self._progress.continuity.next_offset
        if not self._torn:
            self._progress.continuity.lose()
        yield kind.at(self._path, message, position=damage.position, offset=offset)

    def _batch(self, position: int, header: BatchHeader) -> Iterator[Finding]:
        totals = self._progress.totals
        totals.batches += 1
        totals.records += header.records_count
        totals.bytes += header.size
        self._progress.on_bytes(header.size)
        if (crc := self._log.crc(position, header)) != header.crc:
            message = f"stored CRC {header.crc:08x}, the {header.size} bytes make {crc:08x}"
            yield Kind.BATCH_CRC.at(self._path, message, position=position, offset=header.base_offset)
            self._progress.continuity.lose()
            self._unknown = True
            return
        yield from self._progress.continuity.see(self._path, position, header)
        if self._progress.continuity.doubtful:
            self._unknown = True
            return
        outside = check_range(self._path, position, header, self._base, self._next_base)
        if outside is not None:
            yield outside
            self._unknown = True
            return
        yield from self._progress.check_snapshots(header.base_offset)
        yield from self._progress.epochs.see(position, header)
        if self._unknown:
            self._unknown = False
            self._skip_to(position, header)
        yield from self._check_indexes(position, header)
        yield from self._content(position, header)

    def _skip_to(self, position: int, header: BatchHeader) -> None:
        self._offsets.skip_to(position, header)
        self._times.skip_to(header)
        self._transactions.skip_to(header)
        if self._digests is not None:
            self._digests.skip_to(header)

    def _check_indexes(self, position: int, header: BatchHeader) -> Iterator[Finding]:
        yield from self._offsets.see(position, header)
        yield from self._times.see(header)
        if self._digests is not None:
            yield from self._digests.see(header, indexed=self._offsets.indexed)
            if self._offsets.indexed:
                yield from self._times.see_indexed(header)

    def _content(self, position: int, header: BatchHeader) -> Iterator[Finding]:
        data = self._log.read(position, header.size) if header.size <= MAX_BATCH_IN_MEMORY else None
        marker = None
        if header.attributes & CONTROL and data is not None:
            marker, wrong = check_control(self._path, position, header, data)
            yield from wrong
        due = self._progress.producers.see(header, marker)
        yield from self._transactions.see(header, marker, due)
        if self._progress.deep and data is None:
            message = f"a batch of {header.size} bytes"
            yield Kind.NOT_DECODED.at(self._path, message, position=position, offset=header.base_offset)
        elif self._progress.deep and data is not None:
            compacted = self._progress.continuity.compacted
            yield from check_records(self._path, position, header, data, compacted=compacted)
