"""Producer state from the files of a partition: snapshots, and the batches behind them (PS-7 to PS-10)."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from replog.log.batch import CONTROL, BatchHeader
from replog.log.errors import CorruptRecord, CorruptSnapshot
from replog.log.files import SNAPSHOT_SUFFIX, fsync_directory, read_exactly, segment_file_name, write_exactly
from replog.log.producers.control import EndTransactionMarker, marker_or_none
from replog.log.producers.snapshot import ProducerSnapshotEntry, format_snapshot, read_snapshot, snapshot_offsets
from replog.log.producers.state import ProducerStateManager
from replog.log.segment import Segment

Report = Callable[[str], None]


class ProducerSnapshots:
    """The `.snapshot` files of one partition directory; the offset in a name is where its state ends, exclusive."""

    def __init__(self, directory: Path, report: Report) -> None:
        self._directory = directory
        self._report = report
        self._latest = max(snapshot_offsets(directory), default=0)  # nothing is to be said of offset 0

    @property
    def exist(self) -> bool:
        return self._latest > 0

    def path(self, offset: int) -> Path:
        return self._directory / segment_file_name(offset, SNAPSHOT_SUFFIX)

    def take(self, offset: int, producers: ProducerStateManager, *, fsync: bool = True) -> None:
        """Write the state as of `offset`, unless that is not beyond the latest snapshot (PS-8).

        Written in place: one that a crash tears is found by its CRC, and an older one is used.
        """
        if offset <= self._latest:
            return
        fd = os.open(self.path(offset), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_exactly(fd, format_snapshot(producers.snapshot_entries()), 0)
            if fsync:
                os.fsync(fd)
        finally:
            os.close(fd)
        if fsync:
            fsync_directory(self._directory)
        self._latest = offset

    def newest(self, log_start_offset: int, end_offset: int) -> tuple[int, list[ProducerSnapshotEntry]]:
        """The newest usable snapshot in (log start, end], its offset first; else none as of the log start.

        Those that cannot be used are removed (PS-7).
        """
        for offset in reversed(snapshot_offsets(self._directory)):
            if not log_start_offset < offset <= end_offset:
                continue
            try:
                return offset, read_snapshot(self.path(offset))
            except CorruptSnapshot as damage:
                self._report(f"{damage.message}; removing it and using an older one")
                self._remove([offset])
        return log_start_offset, []

    def keep_only(self, log_start_offset: int, end_offset: int) -> None:
        """Remove those that are not in (log start, end] (PS-8)."""
        offsets = snapshot_offsets(self._directory)
        self._remove([offset for offset in offsets if not log_start_offset < offset <= end_offset])

    def remove_stray(self, bases: Sequence[int]) -> None:
        """Keep those of segment bases, and the latest one if it lies behind the last segment's (PS-9)."""
        stray = sorted({*snapshot_offsets(self._directory)} - {*bases})
        if stray and stray[-1] > bases[-1]:
            stray.pop()
        self._remove(stray)

    def clear(self) -> None:
        self._remove(snapshot_offsets(self._directory))

    def _remove(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self.path(offset).unlink(missing_ok=True)
        self._latest = max(snapshot_offsets(self._directory), default=0)  # some may have gone with their segments


def load_producers(
    snapshots: ProducerSnapshots,
    segments: Sequence[Segment],
    recovered: Sequence[Segment],
    log_start_offset: int,
    *,
    clean: bool,
) -> ProducerStateManager:
    """The state at the log end, with a snapshot of it; the transaction indexes of `recovered` segments are filled.

    Nothing is read but a snapshot where there is one at the log end. A log that stopped cleanly and has none is taken
    to have no producers (PS-10).
    """
    end = segments[-1].next_offset
    bases = [segment.base_offset for segment in segments]
    producers = ProducerStateManager()
    snapshots.remove_stray(bases)
    if clean and not recovered and not snapshots.exist:
        for offset in bases[-2:]:
            snapshots.take(offset, producers)
    else:
        if not clean and recovered:  # later ones may describe what the crash took
            snapshots.keep_only(log_start_offset, recovered[0].base_offset)
        at = None
        for segment in recovered:
            if segment.base_offset != at:
                rebuild(producers, snapshots, segments, log_start_offset, segment.base_offset)
            replay(segment, producers, log_start_offset, segment.next_offset, fill_index=True)
            at = segment.next_offset
            snapshots.take(at, producers)  # LD-5
        snapshots.keep_only(log_start_offset, end)
        if at != end:
            rebuild(producers, snapshots, segments, log_start_offset, end)
    producers.forget_deleted(log_start_offset)
    snapshots.take(end, producers)
    return producers


def rebuild(
    producers: ProducerStateManager,
    snapshots: ProducerSnapshots,
    segments: Sequence[Segment],
    log_start_offset: int,
    end_offset: int,
) -> None:
    """Set the state to that at `end_offset`: from the newest usable snapshot up to there, and the batches behind it
    (PS-10).

    Snapshots are taken at the bases of the last two segments if they are passed.
    """
    start, entries = snapshots.newest(log_start_offset, end_offset)
    producers.clear(end_offset)
    producers.load(entries)
    last_two = [segment.base_offset for segment in segments[-2:]]
    for segment in segments:
        if segment.next_offset <= start or segment.base_offset >= end_offset:
            continue
        if segment.base_offset in last_two and segment.base_offset > start:
            snapshots.take(segment.base_offset, producers)
        replay(segment, producers, start, end_offset)
        if segment is not segments[-1]:
            segment.close()


def replay(
    segment: Segment, producers: ProducerStateManager, start_offset: int, end_offset: int, *, fill_index: bool = False
) -> None:
    """Follow the batches of a segment from `start_offset` up to `end_offset`, by their headers.

    What lies behind damage that loading has not found cannot be followed; it ends the walk.
    """
    try:
        found = segment.translate(start_offset)
        for position, header in segment.batches_from(found[0] if found else segment.size):
            if header.base_offset >= end_offset:
                return
            if header.producer_id < 0:
                continue
            aborted = producers.update(header, _marker(segment, position, header))
            if aborted is not None and fill_index:
                segment.transaction_index.append(aborted)
    except CorruptRecord:
        return


def _marker(segment: Segment, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    if not header.attributes & CONTROL:
        return None
    return marker_or_none(read_exactly(segment.fd(), position, header.size), header)
