"""Opens a log from the files of its partition directory (LD-1 to LD-11)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from replog.config.topic import TopicConfig
from replog.log.epochs import EpochEntry, LeaderEpochCache
from replog.log.errors import CorruptIndex, CorruptRecord, LogStorageError
from replog.log.files.names import DELETED_SUFFIX, LOG_SUFFIX, STRAY_SUFFIX
from replog.log.files.opening import files_by_offset, fsync_directory, make_file
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, format_entries
from replog.log.offsets import NO_EPOCH
from replog.log.producers.recovery import LoadingProducers, ProducerSnapshots
from replog.log.producers.state import ProducerStateManager
from replog.log.recovery import MAX_OFFSET, ends_soundly, first_epoch, load_epochs, recover, suspect_before
from replog.log.segment import SEGMENT_SUFFIXES, Segment
from replog.log.segments import Segments, new_segment
from replog.log.swap import finish_swaps

Report = Callable[[str], None]


class LoadedLog(NamedTuple):
    """A log's parts, as read from the files."""

    segments: Segments
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    snapshots: ProducerSnapshots
    log_start_offset: int
    lost_data: bool  # batches are missing, or unsound ones were dropped


def empty_log(directory: Path, epochs: Sequence[EpochEntry]) -> LoadedLog:
    """Make the files of an empty log in a new directory. The caller then makes the directory durable."""
    checkpoint = directory / LEADER_EPOCH_CHECKPOINT
    if epochs:
        make_file(checkpoint, format_entries(epochs))
    segment = Segment(directory, 0, new=True)
    segment.begin()
    return LoadedLog(
        Segments(directory, [segment]),
        LeaderEpochCache(checkpoint, epochs),
        ProducerStateManager(),
        ProducerSnapshots(directory, lambda _: None, new=True),
        0,
        lost_data=False,
    )


def load_log(
    directory: Path, config: TopicConfig, *, clean: bool, recovery_point: int, log_start_offset: int, report: Report
) -> LoadedLog:
    """Load the log in `directory`, as `SegmentLoader.load` does; it is created if missing.

    If headers contradict each other in a part that was not to be checked, all segments are recovered."""
    directory.mkdir(parents=True, exist_ok=True)
    durable = MAX_OFFSET if clean else recovery_point
    try:
        loaded = _load(directory, config, clean, recovery_point, durable, log_start_offset, report)
    except CorruptRecord as damage:
        report(f"recovering all of {directory}: {damage.message}")
        loaded = _load(directory, config, False, 0, durable, log_start_offset, report)
    missing = loaded.segments.active.next_offset < recovery_point  # durable records are gone
    return loaded._replace(lost_data=loaded.lost_data or missing)


def _load(
    directory: Path,
    config: TopicConfig,
    clean: bool,
    recovery_point: int,
    durable: int,
    log_start_offset: int,
    report: Report,
) -> LoadedLog:
    finish_swaps(directory)
    bases = _segment_bases(directory)
    start = max([log_start_offset, *bases[:1]])
    snapshots = ProducerSnapshots(directory, report)
    producers = LoadingProducers(snapshots, bases, start, clean=clean)
    loader = SegmentLoader(directory, config, producers, report)
    loader.load(bases, clean=clean, recovery_point=recovery_point, durable=durable)
    segments = Segments(directory, loader.segments or [new_segment(directory, log_start_offset)])
    if segments.active.next_offset < log_start_offset:  # LD-8
        report(f"{directory} ends below its log start {log_start_offset}: starting again there")
        segments.replace_all(log_start_offset)
        (directory / LEADER_EPOCH_CHECKPOINT).unlink(missing_ok=True)
        snapshots.clear()
        producers = LoadingProducers(snapshots, [log_start_offset], start, clean=clean)
    try:
        epochs = load_epochs(directory / LEADER_EPOCH_CHECKPOINT, segments.all(), start, report)
    except CorruptRecord:
        segments.close()
        raise
    state = producers.finish(segments.all())
    for segment in segments.all()[:-1]:
        segment.close()
    return LoadedLog(segments, epochs, state, snapshots, start, loader.lost_data)


class SegmentLoader:
    """Opens the segments of a directory, oldest first, and recovers those that need it."""

    def __init__(self, directory: Path, config: TopicConfig, producers: LoadingProducers, report: Report) -> None:
        self.segments: list[Segment] = []
        self.lost_data = False  # bytes were cut, or segments dropped
        self._directory = directory
        self._config = config
        self._producers = producers
        self._report = report
        self._epoch = NO_EPOCH  # the last batch's leader epoch

    def load(self, bases: list[int], *, clean: bool, recovery_point: int, durable: int) -> None:
        """Open every segment. Recover those that may be torn, or whose ends are damaged. No crash has torn what lies
        below `durable`.

        After an unclean stop, segments from the recovery point on are recovered from their bytes (LD-5). An index in
        doubt is rebuilt from the headers alone; payload that is not in doubt is not read (unlike LD-3). A segment that
        loses bytes, or does not reach up to the next one, ends the log: later ones are set aside (LD-6)."""
        unflushed = max((base for base in bases if base <= recovery_point), default=0)
        for slot, base in enumerate(bases):
            segment = Segment(self._directory, base)
            following = bases[slot + 1 : slot + 2]
            doubt = None if clean or base < unflushed else "the broker did not stop cleanly"
            first, epoch = first_epoch(segment), self._epoch
            if self.segments and first is not None and first < epoch:
                last = self.segments[-1]
                suspect = suspect_before(self.segments, first)
                if suspect is not None:
                    segment.close()
                    self._report(
                        f"{last.path}: its last batch has leader epoch {epoch}, and {first} follows: cutting it"
                    )
                    last.truncate_to(suspect)
                    last.file.sync()  # otherwise a crash brings batches back that pass for appended ones
                    self._end_before(bases[slot:], torn=base >= durable)
                    return
                doubt = doubt or f"it begins with leader epoch {first}, after {epoch}"
            removed = self._load_segment(segment, following, doubt)
            if following and (removed or not _reaches(segment, following[0], self._config)):
                self._end_before(bases[slot + 1 :], torn=removed > 0 and following[0] >= durable)
                return
            if following:
                segment.seal()
                segment.close()
            else:
                segment.unseal()
                self.lost_data = bool(removed)

    def _load_segment(self, segment: Segment, following: list[int], doubt: str | None) -> int:
        """Recover the segment if there is a `doubt`, or if one arises. Return the bytes removed.

        The last batch is always checked: it decides where the next segment or the next record belongs."""
        removed, recovered = 0, False
        if doubt is None:
            try:
                segment.restore(self._config)
            except CorruptIndex as damage:
                removed, recovered = self._recover(segment, following, damage.message, check_crc=False), True
            except CorruptRecord as damage:
                doubt = damage.message
        if doubt is None and not (
            _reaches(segment, following[0], self._config) if following else ends_soundly(segment)
        ):
            doubt = f"its last batch cannot end at offset {segment.next_offset - 1}"
        if doubt is not None:
            removed, recovered = removed + self._recover(segment, following, doubt), True
        self.segments.append(segment)
        self._epoch = max(self._epoch, segment.last_epoch)
        if recovered:
            self._producers.take_snapshot(self.segments)
        return removed

    def _recover(self, segment: Segment, following: list[int], reason: str, *, check_crc: bool = True) -> int:
        self._report(f"recovering {segment.path}: {reason}")
        limit = following[0] if following else MAX_OFFSET
        self._producers.begin(self.segments, segment.base_offset)
        removed = recover(segment, self._config, self._epoch, self._producers, limit=limit, check_crc=check_crc)
        if removed or following:  # a cut must be durable before an append (LG-10)
            segment.flush()
        if removed:
            self._report(
                f"{segment.path}: {removed} bytes after offset {segment.next_offset - 1} were unsound and are cut off"
            )
        return removed

    def _end_before(self, later: list[int], *, torn: bool) -> None:
        """End the log with the loaded segments, and set aside those with the base offsets `later` (LD-6).

        If a crash has `torn` the log, nothing in them was durable, and they may be deleted. Otherwise a file was lost
        or damaged, and they may have committed records that are nowhere else. Raises LogStorageError if something has
        their new names."""
        active, suffix, advice = self.segments[-1], DELETED_SUFFIX, ""
        if not torn:
            suffix = STRAY_SUFFIX
            advice = (
                f" as *{suffix}, which nobody deletes; if no other replica has their records, stop the broker, put the "
                "missing file back, take that suffix off, and start it"
            )
        self._report(
            f"{active.path} ends at offset {active.next_offset}: setting aside {len(later)} later segments{advice}"
        )
        _set_aside(self._directory, later, suffix)
        active.unseal()
        self.lost_data = True


def _reaches(segment: Segment, following: int, config: TopicConfig) -> bool:
    """Return True if the next segment may follow: compaction leaves holes, nothing else does (CL-8)."""
    return segment.next_offset == following or (config.compacted and segment.next_offset < following)


def _segment_bases(directory: Path) -> list[int]:
    """Return base offsets that have a `.log`, in order, and remove other segments' files (LD-3)."""
    files = files_by_offset(directory)
    bases = {base for base, name in files if name.endswith(LOG_SUFFIX)}
    for base, name in files:
        if base not in bases and name.endswith(SEGMENT_SUFFIXES):
            (directory / name).unlink()
    return sorted(bases)


def _set_aside(directory: Path, bases: list[int], suffix: str) -> None:
    """Rename segments, newest first, so that a crash leaves no hole."""
    names = [
        (path, path.with_name(path.name + suffix)) for base in bases[::-1] for path in Segment(directory, base).paths
    ]
    for _, aside in names:
        if aside.exists():
            raise LogStorageError(f"{aside} is in the way; move it away", aside)
    for path, aside in names:
        if path.exists():
            path.rename(aside)
    fsync_directory(directory)
