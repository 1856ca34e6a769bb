"""Checks one partition directory: its files' names, its segments in order, and its state as a whole."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from replog.log.directories.partition_metadata import PARTITION_METADATA, DamagedTopicId, read_topic_id
from replog.log.errors import CorruptSnapshot, LogStorageError
from replog.log.files.names import DIGEST_SUFFIX, LOG_SUFFIX, segment_file_name
from replog.log.files.opening import has_records
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT
from replog.log.formats.segment_file import Vanished
from replog.log.producers.snapshot import read_snapshot
from replog.log_tools.checker.findings import Finding, Kind
from replog.log_tools.verify.names import check_partition_names, segment_bases, snapshot_files
from replog.log_tools.verify.segment import (
    EpochsVerified,
    Options,
    PartitionProgress,
    VerifiedTotals,
    check_segment,
    read_epochs,
)
from replog.log_tools.verify.transactions import Producers


@dataclass(frozen=True)
class Surroundings:
    """The log directory's knowledge of a partition; None where it has none."""

    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    compacted: bool = False  # its topic is: the cleaner has been at this partition, or at another one
    unclean: bool = True  # a broker runs on it, or did not stop in order

    @property
    def flushed(self) -> int | None:
        """The offset below which the log's files are known to be durable; None: all of it."""
        return (self.recovery_point or 0) if self.unclean else None


def verify_partition(
    directory: Path, surroundings: Surroundings, options: Options, totals: VerifiedTotals
) -> Iterator[Finding]:
    """Check everything in one partition directory, and the checkpoints beside it. Raises OSError."""
    bases = segment_bases(directory)
    yield from check_partition_names(directory.iterdir(), bases)
    yield from check_topic_id(directory)
    progress, malformed = begun(directory, bases, surroundings, options, totals)
    yield from malformed
    progress.snapshots = snapshot_files(directory)[::-1]
    epochs, log_start = progress.epochs, progress.producers.known_from
    for base, next_base in zip(bases, [*bases[1:], None], strict=False):
        try:
            yield from check_segment(directory, base, next_base, progress)
            totals.segments += 1
        except Vanished as error:
            yield Kind.VANISHED.at(directory / segment_file_name(base, LOG_SUFFIX), str(error))
            progress.producers.complete = False
        except FileNotFoundError as error:
            path = Path(error.filename)
            if os.path.lexists(path):
                raise
            yield Kind.VANISHED.at(path, "there is no such file any more")
            progress.producers.complete = False
    yield from progress.check_snapshots(progress.end_offset)
    for offset, path in reversed(progress.snapshots):
        yield from check_snapshot_file(path)
        message = f"a snapshot at {offset}, and the log ends at {progress.end_offset}"
        yield Kind.SNAPSHOT_AHEAD.at(path, message, offset=offset)
    yield from epochs.finish(progress.end_offset)
    yield from _check_bounds(directory, surroundings, log_start, progress.end_offset)


def begun(
    directory: Path, bases: Sequence[int], said: Surroundings, options: Options, totals: VerifiedTotals, first: int = 0
) -> tuple[PartitionProgress, list[Finding]]:
    """Return the state before the segment at offset `first`, and the faults of the file of epochs.

    The checkpoint of log starts lags behind; the epochs follow at once (EP-5), which shows after a crash."""
    entries, malformed = read_epochs(directory / LEADER_EPOCH_CHECKPOINT)
    log_start = max(said.log_start or 0, bases[0] if bases else 0)
    flushed = said.flushed if any(directory.glob(f"*{DIGEST_SUFFIX}")) else None  # Kafka's has no digests and no lag
    epochs = EpochsVerified(directory, entries, log_start, said.unclean, flushed)
    compacted = said.compacted or options.compacted
    known_from = max(log_start, entries[0][1] if said.unclean and entries else 0, first)
    producers = Producers(known_from, compacted=compacted)
    return PartitionProgress(producers, epochs, totals, options, said.unclean, compacted), malformed


def check_topic_id(directory: Path) -> Iterator[Finding]:
    """Check `partition.metadata`, which old Kafka partitions do not have (1.4)."""
    path = directory / PARTITION_METADATA
    try:
        if read_topic_id(directory) is None:
            yield Kind.NO_TOPIC_ID.at(path, "there is no such file")
    except LogStorageError as error:
        torn = isinstance(error, DamagedTopicId) and not has_records(directory)  # a broker starts it again
        yield (Kind.NO_TOPIC_ID if torn else Kind.MALFORMED).at(path, error.message)


def check_snapshot_file(path: Path) -> Iterator[Finding]:
    """Check a producer snapshot by itself (7.5)."""
    try:
        read_snapshot(path)
    except CorruptSnapshot as damage:
        yield Kind.SNAPSHOT.at(path, damage.message)


def _check_bounds(directory: Path, said: Surroundings, log_start: int, end_offset: int) -> Iterator[Finding]:
    """Check that recovery point, log start and high watermark lie in the log."""
    if said.log_start is not None and said.log_start > end_offset:
        message = f"log start {said.log_start} is beyond the log end {end_offset}"
        yield Kind.CHECKPOINT.at(directory, message, offset=said.log_start)
    if said.recovery_point is not None and said.recovery_point > end_offset:
        message = (
            f"recovery point {said.recovery_point}, up to which the log was on the disk, is beyond its end {end_offset}"
        )
        yield Kind.CHECKPOINT.at(directory, message, offset=said.recovery_point)
    mark = said.high_watermark
    if mark is not None and mark > end_offset:
        kind = Kind.CHECKPOINT_AHEAD if said.unclean else Kind.CHECKPOINT
        yield kind.at(directory, f"high watermark {mark} is beyond the log end {end_offset}", offset=mark)
    if mark is not None and mark < log_start and not said.unclean:
        yield Kind.CHECKPOINT.at(directory, f"high watermark {mark} is below the log start {log_start}", offset=mark)
