"""From the files of a partition directory to its log (LD-1 to LD-11)."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from replog.config import TopicConfig
from replog.log.checkpoint import LEADER_EPOCH_CHECKPOINT
from replog.log.compaction.swap import finish_swaps
from replog.log.epoch_cache import LeaderEpochCache
from replog.log.errors import CorruptIndex, CorruptRecord
from replog.log.files import DELETED_SUFFIX, LOG_SUFFIX, files_by_offset, fsync_directory
from replog.log.offsets import NO_EPOCH
from replog.log.producers.recovery import ProducerSnapshots, load_producers
from replog.log.producers.state import ProducerStateManager
from replog.log.recovery import MAX_OFFSET, ends_soundly, first_epoch, load_epochs, recover, suspect_before
from replog.log.segment import SEGMENT_SUFFIXES, Segment
from replog.log.segments import Segments, new_segment

Report = Callable[[str], None]


class LoadedLog(NamedTuple):
    """All that the files tell."""

    segments: Segments
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    snapshots: ProducerSnapshots
    log_start_offset: int
    lost_data: bool  # batches are missing, or unsound ones were dropped


def load_log(
    directory: Path, config: TopicConfig, *, clean: bool, recovery_point: int, log_start_offset: int, report: Report
) -> LoadedLog:
    """Load what `directory` holds, as `load_segments` does; it is created if missing.

    Headers that contradict each other where nobody meant to look have all segments recovered.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        loaded = _load(directory, config, clean, recovery_point, log_start_offset, report)
    except CorruptRecord as damage:
        report(f"recovering all of {directory}: {damage.message}")
        loaded = _load(directory, config, False, 0, log_start_offset, report)
    missing = loaded.segments.active.next_offset < recovery_point  # what was durable is gone
    return loaded._replace(lost_data=loaded.lost_data or missing)


def _load(
    directory: Path, config: TopicConfig, clean: bool, recovery_point: int, log_start_offset: int, report: Report
) -> LoadedLog:
    loaded, recovered, cut = load_segments(directory, config, clean=clean, recovery_point=recovery_point, report=report)
    segments = Segments(directory, loaded or [new_segment(directory, log_start_offset)])
    snapshots = ProducerSnapshots(directory, report)
    if segments.active.next_offset < log_start_offset:  # LD-8
        report(f"{directory} ends below its log start {log_start_offset}: starting anew there")
        segments.replace_all(log_start_offset)
        (directory / LEADER_EPOCH_CHECKPOINT).unlink(missing_ok=True)
        snapshots.clear()
        recovered = []
    start = max(log_start_offset, segments.first.base_offset)
    try:
        epochs = load_epochs(directory / LEADER_EPOCH_CHECKPOINT, segments.all(), start, report)
    except CorruptRecord:
        segments.close()
        raise
    producers = load_producers(snapshots, segments.all(), recovered, start, clean=clean)
    for segment in segments.all()[:-1]:
        segment.close()
    return LoadedLog(segments, epochs, producers, snapshots, start, cut)


class LoadedSegments(NamedTuple):
    """The segments, oldest first; those of them that were recovered, whose transaction indexes are still to be filled;
    and whether batches were lost on the way (bytes cut, segments dropped)."""

    segments: list[Segment]
    recovered: list[Segment]
    cut: bool


def load_segments(
    directory: Path, config: TopicConfig, *, clean: bool, recovery_point: int, report: Report
) -> LoadedSegments:
    """Open every segment; recover those that may be torn, or that a look at their ends shows to be damaged.

    After an unclean stop, segments from the recovery point on are recovered from their bytes (LD-5). An index in doubt
    is rebuilt from the headers, without judging payload that nobody doubts (unlike LD-3). A segment that loses bytes,
    or does not reach up to the next one, ends the log: later ones are set aside as `.deleted` (LD-6).
    """
    finish_swaps(directory)
    bases = _segment_bases(directory)
    unflushed = max((base for base in bases if base <= recovery_point), default=0)
    segments: list[Segment] = []
    recovered: list[Segment] = []
    epoch = NO_EPOCH
    for slot, base in enumerate(bases):
        segment = Segment(directory, base)
        following = bases[slot + 1 : slot + 2]
        doubt = None if clean or base < unflushed else "the broker did not stop cleanly"
        first = first_epoch(segment)
        if segments and first is not None and first < epoch:
            suspect = suspect_before(segments, first)
            if suspect is not None:
                segment.close()
                report(f"{segments[-1].path}: its last batch has leader epoch {epoch}, and {first} follows: cutting it")
                segments[-1].truncate_to(suspect)
                return _ended(directory, segments, recovered, bases[slot:], report)
            doubt = doubt or f"it begins with leader epoch {first}, after {epoch}"
        removed = _load_segment(segment, config, epoch, following, doubt, report)
        segments.append(segment)
        if removed is not None:
            recovered.append(segment)
        epoch = max(epoch, segment.last_epoch)
        if following and (removed or not _reaches(segment, following[0], config)):
            return _ended(directory, segments, recovered, bases[slot + 1 :], report)
        if following:
            segment.seal()
            segment.close()
        else:
            segment.unseal()
            return LoadedSegments(segments, recovered, bool(removed))
    return LoadedSegments(segments, recovered, False)


def _load_segment(
    segment: Segment, config: TopicConfig, epoch: int, following: list[int], doubt: str | None, report: Report
) -> int | None:
    """Recover the segment if there is a `doubt`, or if one arises; returns the bytes removed, None if it was as it is.

    What decides where the next segment or the next record belongs is not taken on trust: a last batch that fits.
    """
    removed = None
    if doubt is None:
        try:
            segment.restore(config)
        except CorruptIndex as damage:
            removed = _recover(segment, config, epoch, following, damage.message, report, check_crc=False)
        except CorruptRecord as damage:
            doubt = damage.message
    if doubt is None and not (_reaches(segment, following[0], config) if following else ends_soundly(segment)):
        doubt = f"its last batch cannot end at offset {segment.next_offset - 1}"
    if doubt is not None:
        removed = (removed or 0) + _recover(segment, config, epoch, following, doubt, report)
    return removed


def _ended(
    directory: Path, segments: list[Segment], recovered: list[Segment], later: list[int], report: Report
) -> LoadedSegments:
    """The log ends with the last of `segments`; those of the bases `later` are set aside (LD-6)."""
    active = segments[-1]
    report(f"{active.path} ends at offset {active.next_offset}: setting aside {len(later)} later segments")
    _set_aside(directory, later)
    active.unseal()
    return LoadedSegments(segments, recovered, True)


def _reaches(segment: Segment, following: int, config: TopicConfig) -> bool:
    """Whether the next segment may follow: compaction leaves holes, nothing else does (CL-8)."""
    return segment.next_offset == following or (config.compacted and segment.next_offset < following)


def _recover(
    segment: Segment,
    config: TopicConfig,
    epoch: int,
    following: list[int],
    reason: str,
    report: Report,
    *,
    check_crc: bool = True,
) -> int:
    report(f"recovering {segment.path}: {reason}")
    limit = following[0] if following else MAX_OFFSET
    removed = recover(segment, config, epoch, limit=limit, check_crc=check_crc)
    if removed:
        report(f"{segment.path}: {removed} bytes after offset {segment.next_offset - 1} were unsound and are cut off")
    return removed


def _segment_bases(directory: Path) -> list[int]:
    """Base offsets that have a `.log`, in order; files of others are removed (LD-3)."""
    files = files_by_offset(directory)
    bases = {base for base, name in files if name.endswith(LOG_SUFFIX)}
    for base, name in files:
        if base not in bases and name.endswith(SEGMENT_SUFFIXES):
            (directory / name).unlink()
    return sorted(bases)


def _set_aside(directory: Path, bases: list[int]) -> None:
    """Rename segments to `.deleted`, newest first, so that a crash leaves no hole."""
    for base in reversed(bases):
        for path in Segment(directory, base).paths:
            if path.exists():
                path.rename(path.with_name(path.name + DELETED_SUFFIX))
    fsync_directory(directory)
