"""Restores producer state from the files of a partition: snapshots, and the batches behind them (PS-7 to PS-10)."""

from collections.abc import Callable, Sequence
from pathlib import Path

from replog.log.errors import NO_ROOM, CorruptRecord, CorruptSnapshot
from replog.log.files.names import SNAPSHOT_SUFFIX, segment_file_name
from replog.log.files.opening import fsync_directory, fsync_path, make_file
from replog.log.formats.batch import CONTROL, BatchHeader
from replog.log.formats.control_batch import EndTransactionMarker, marker_or_none
from replog.log.producers.snapshot import ProducerSnapshotEntry, format_snapshot, read_snapshot, snapshot_offsets
from replog.log.producers.state import ProducerStateManager
from replog.log.segment import Segment

Report = Callable[[str], None]


class ProducerSnapshots:
    """The `.snapshot` files of one partition directory. Each holds the state before the offset in its name."""

    def __init__(self, directory: Path, report: Report, *, new: bool = False) -> None:
        """`new` means that the directory was just made, and is empty."""
        self.directory = directory
        self._report = report
        self._latest = 0 if new else max(snapshot_offsets(directory), default=0)  # offset 0 has no state

    @property
    def exist(self) -> bool:
        return self._latest > 0

    def path(self, offset: int) -> Path:
        return self.directory / segment_file_name(offset, SNAPSHOT_SUFFIX)

    def take(self, offset: int, producers: ProducerStateManager) -> bool:
        """Write the state as of `offset`, if that is beyond the latest snapshot, and return True then (PS-8).

        It is written in place, without waiting for the disk. If a crash tears it, its CRC tells, and an older one is
        used."""
        if offset <= self._latest:
            return False
        try:
            self._write(offset, producers.snapshot_entries())
        except OSError as error:
            if error.errno in NO_ROOM:
                self.drop(offset)
            raise
        self._latest = offset
        return True

    def drop(self, offset: int) -> None:
        self._remove(offset.__eq__)

    def sync(self) -> None:
        """Make the latest snapshot durable, and the names of all."""
        if self.exist:
            fsync_path(self.path(self._latest))
        fsync_directory(self.directory)

    def add(self, entries: Sequence[ProducerSnapshotEntry]) -> None:
        """Add producers that wrote before all snapshots to each of them, durably."""
        for offset in snapshot_offsets(self.directory) if entries else ():
            try:
                known = read_snapshot(self.path(offset))
            except CorruptSnapshot:
                continue
            self._write(offset, [*known, *entries])
            fsync_path(self.path(offset))

    def _write(self, offset: int, entries: Sequence[ProducerSnapshotEntry]) -> None:
        make_file(self.path(offset), format_snapshot(entries))

    def newest(self, log_start_offset: int, end_offset: int) -> tuple[int, list[ProducerSnapshotEntry]]:
        """Return offset and entries of the newest usable snapshot in [log start, end], or the log start and none.

        Unusable ones are removed (PS-7)."""
        for offset in reversed(snapshot_offsets(self.directory)):
            if not log_start_offset <= offset <= end_offset:
                continue
            try:
                return offset, read_snapshot(self.path(offset))
            except CorruptSnapshot as damage:
                self._report(f"{damage.message}; removing it and using an older one")
                self._remove(offset.__eq__)
        return log_start_offset, []

    def keep_only(self, log_start_offset: int, end_offset: int) -> None:
        """Remove those that are not in [log start, end] (PS-8)."""
        self._remove(lambda offset: not log_start_offset <= offset <= end_offset)

    def remove_stray(self, bases: Sequence[int]) -> None:
        """Keep those of segment bases, and the latest one if it lies beyond the last base (PS-9)."""
        stray = sorted({*snapshot_offsets(self.directory)} - {*bases})
        if stray and stray[-1] > bases[-1]:
            stray.pop()
        if stray:
            self._remove(stray.__contains__)

    def clear(self) -> None:
        self._remove(lambda _: True)

    def _remove(self, goes: Callable[[int], bool]) -> None:
        """Remove some, and note the latest of the others: some may have gone with their segments."""
        self._latest = 0
        for offset in snapshot_offsets(self.directory):
            if goes(offset):
                self.path(offset).unlink(missing_ok=True)
            else:
                self._latest = max(self._latest, offset)


class LoadingProducers:
    """The state while the segments of a log are loaded, oldest first. Recovery passes it the batches that it reads."""

    def __init__(
        self, snapshots: ProducerSnapshots, bases: Sequence[int], log_start_offset: int, *, clean: bool
    ) -> None:
        self._snapshots = snapshots
        self._log_start_offset = log_start_offset
        self._clean = clean
        self._state = ProducerStateManager()
        self._at: int | None = None  # the offset that the state is as of, if known
        self._recovered = False  # True once a segment was recovered
        if bases:
            snapshots.remove_stray(bases)

    def begin(self, earlier: Sequence[Segment], base_offset: int) -> None:
        """Make the state as of `base_offset`, where a segment begins that needs recovery (LD-5)."""
        if not self._recovered and not self._clean:  # later ones may describe records that the crash has lost
            self._snapshots.keep_only(self._log_start_offset, base_offset)
        self._recovered = True
        if self._at != base_offset:
            rebuild(self._state, self._snapshots, earlier, self._log_start_offset, base_offset)
        self._at = None

    def follow(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Follow the segment's next batch that has a producer id, and fill its transaction index."""
        if header.base_offset + header.last_offset_delta >= self._log_start_offset:
            marker = _marker(segment, position, header) if header.attributes & CONTROL else None
            aborted = self._state.update(header, marker)
            if aborted is not None:
                segment.transaction_index.append(aborted)

    def followed(self, offset: int) -> None:
        """Note that all batches before `offset` were followed, and no others."""
        self._at = offset

    def take_snapshot(self, segments: Sequence[Segment]) -> None:
        """Take a snapshot at the end of these segments, the last of which was recovered (LD-5)."""
        self._reach_end(segments)
        self._snapshots.take(segments[-1].next_offset, self._state)

    def finish(self, segments: Sequence[Segment]) -> ProducerStateManager:
        """Return the state at the log end, and write a snapshot of it.

        If there is a snapshot at the log end, nothing else is read. A log that stopped cleanly and has none has no
        producers (PS-10)."""
        end = segments[-1].next_offset
        if self._clean and not self._recovered and not self._snapshots.exist:
            for segment in segments[-2:]:
                self._snapshots.take(segment.base_offset, self._state)
        else:
            self._snapshots.keep_only(self._log_start_offset, end)
            self._reach_end(segments)
        self._snapshots.take(end, self._state)
        return self._state

    def _reach_end(self, segments: Sequence[Segment]) -> None:
        end = segments[-1].next_offset
        if self._at != end:
            rebuild(self._state, self._snapshots, segments, self._log_start_offset, end)
            self._at = end


def rebuild(
    producers: ProducerStateManager,
    snapshots: ProducerSnapshots,
    segments: Sequence[Segment],
    log_start_offset: int,
    end_offset: int,
) -> None:
    """Set the state to that at `end_offset`: the newest usable snapshot up to there, then the batches behind it
    (PS-10).

    Meanwhile, take snapshots at the bases of the last two segments."""
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


def cut_back(
    cut: ProducerStateManager,
    snapshots: ProducerSnapshots,
    segments: Sequence[Segment],
    log_start_offset: int,
    end_offset: int,
    *,
    none_known: bool,
) -> ProducerStateManager:
    """Fill `cut` with the state as of the new log end after a truncation, and remove snapshots beyond it (PS-8, PS-10).

    In any thread, while nothing is appended. With `none_known` there is no producer to find."""
    snapshots.keep_only(log_start_offset, end_offset)
    if not none_known:
        rebuild(cut, snapshots, segments, log_start_offset, end_offset)
    snapshots.take(end_offset, cut)
    return cut


def start_over(snapshots: ProducerSnapshots) -> ProducerStateManager:
    """Return the state after a truncation of everything (LG-12)."""
    snapshots.clear()
    return ProducerStateManager()


def replay(segment: Segment, producers: ProducerStateManager, start_offset: int, end_offset: int) -> None:
    """Follow the batches of a segment from `start_offset` up to `end_offset`, by their headers.

    Damage that loading has not found ends the walk: the batches behind it cannot be followed."""
    try:
        batch = segment.translate(start_offset)
        for position, header in segment.batches_from(batch[0] if batch else segment.size):
            if header.base_offset >= end_offset:
                return
            if header.producer_id >= 0:
                producers.update(header, _marker(segment, position, header) if header.attributes & CONTROL else None)
    except CorruptRecord:
        return


def _marker(segment: Segment, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    return marker_or_none(segment.file.read(position, header.size), header)
