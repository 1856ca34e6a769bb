"""Verifies log directories and partitions: of a log directory its checkpoints, its identity, its lock, and every
partition in it; of a partition the names of its files, its segments in order, and its state as a whole."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import CLEAN_SHUTDOWN, META_PROPERTIES, load_identity
from replog.log.directories.lock import LOCK, is_locked
from replog.log.directories.partition_metadata import PARTITION_METADATA, DamagedTopicId, read_topic_id
from replog.log.epochs import EpochEntry, LeaderEpochCache
from replog.log.errors import CorruptSnapshot, LogStorageError
from replog.log.files.names import DIGEST_SUFFIX, LOG_SUFFIX, segment_file_name
from replog.log.files.opening import has_records
from replog.log.formats.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINT_CHECKPOINT,
    DamagedCheckpoint,
    OffsetCheckpoint,
)
from replog.log.formats.segment_file import Vanished
from replog.log.producers.snapshot import read_snapshot
from replog.log_tools.checker.findings import Finding, Kind, capped
from replog.log_tools.verify.names import (
    LOG_DIRECTORY_FILES,
    METADATA_SNAPSHOT,
    PARTITION_FILES,
    SEGMENT_FILE,
    check_log_directory_names,
    check_partition_names,
    is_partition_name,
    replica_name,
    segment_bases,
    snapshot_files,
)
from replog.log_tools.verify.segment import EpochsVerified, Options, PartitionProgress, VerifiedTotals, check_segment
from replog.log_tools.verify.transactions import Producers
from replog.topic import TopicPartition, parse_directory_name


def verify(paths: Sequence[Path], options: Options, totals: VerifiedTotals) -> Iterator[Finding]:
    """Yield everything found in `paths`: log directories and directories of partitions, ours or Kafka's.

    Nothing is written. An unreadable file is a finding. Raises INVALID_REQUEST, before anything is read, for a path
    that is none of these."""
    for path, alone in [(path, is_partition(path)) for path in paths]:
        check = _verify_alone if alone else verify_log_directory
        yield from capped(readable(path, check(path, options, totals)))


def log_bytes(path: Path) -> int:
    """Return the bytes of `.log` files that `verify` will read: a measure of its progress."""
    try:
        return sum(file.stat().st_size for depth in ("", "*/") for file in path.glob(f"{depth}*{LOG_SUFFIX}"))
    except OSError:
        return 0


def is_partition(path: Path) -> bool:
    """Return True if it has the files of a partition, or nothing but the name of one; False if it has those of a log
    directory, or partitions that have files. Raises INVALID_REQUEST for any other path."""
    try:
        if path.is_dir():
            names = {file.name for file in path.iterdir()}
            is_named = is_partition_name(path.resolve().name) and not names & LOG_DIRECTORY_FILES
            if is_named or _are_of_a_partition(names):
                return True
            inside = (path / name for name in names if is_partition_name(name))
            if names & LOG_DIRECTORY_FILES or any(
                _are_of_a_partition({file.name for file in each.iterdir()}) for each in inside if each.is_dir()
            ):
                return False
    except OSError as error:
        raise ErrorCode.INVALID_REQUEST.error(f"cannot read {path}: {error}") from None
    if not path.exists():
        raise ErrorCode.INVALID_REQUEST.error(f"no such file or directory: {path}")
    raise ErrorCode.INVALID_REQUEST.error(f"{path} is neither a log directory nor the directory of a partition")


def _are_of_a_partition(names: set[str]) -> bool:
    return bool(names & PARTITION_FILES) or any(SEGMENT_FILE.fullmatch(name) for name in names)


def _verify_alone(partition: Path, options: Options, totals: VerifiedTotals) -> Iterator[Finding]:
    """Verify one partition, by the knowledge of the log directory around it."""
    directory = partition.resolve()
    checkpoints, findings = read_checkpoints(directory.parent)
    known = parse_directory_name(directory.name) if is_partition_name(directory.name) else None
    yield from (finding for finding in findings if finding.kind is Kind.IN_USE)
    yield from verify_partition(partition, checkpoints.surroundings(known), options, totals)


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


class Checkpoints(NamedTuple):
    """The content of a log directory's own files, as far as they can be read."""

    offsets: dict[str, dict[TopicPartition, int]]  # the keys are file names
    unclean: bool

    def surroundings(self, partition: TopicPartition | None) -> Surroundings:
        """Return their entries for one partition."""
        if partition is None:
            return Surroundings(unclean=self.unclean)
        return Surroundings(
            self.offsets[LOG_START_CHECKPOINT].get(partition),
            self.offsets[RECOVERY_POINT_CHECKPOINT].get(partition),
            self.offsets[HIGH_WATERMARK_CHECKPOINT].get(partition),
            any(cleaned.topic == partition.topic for cleaned in self.offsets[CLEANER_CHECKPOINT]),
            self.unclean,
        )


def read_checkpoints(directory: Path) -> tuple[Checkpoints, list[Finding]]:
    """Read the checkpoints, and find their faults. Raises OSError, LogStorageError."""
    offsets: dict[str, dict[TopicPartition, int]] = {}
    findings: list[Finding] = []
    for name in OFFSET_CHECKPOINTS:
        offsets[name] = {}
        try:
            offsets[name] = OffsetCheckpoint(directory / name).read()
        except DamagedCheckpoint as damage:
            findings.append(Kind.MALFORMED.at(directory / name, damage.message))
    for name, checkpoint in offsets.items():
        for partition, offset in checkpoint.items():
            if offset < 0:
                findings.append(Kind.MALFORMED.at(directory / name, f"{partition} has offset {offset}", offset=offset))
    in_use = is_locked(directory)
    if in_use:
        findings.append(Kind.IN_USE.at(directory / LOCK, "locked"))
    return Checkpoints(offsets, in_use or not (directory / CLEAN_SHUTDOWN).exists()), findings


def verify_log_directory(directory: Path, options: Options, totals: VerifiedTotals) -> Iterator[Finding]:
    """Check everything in one log directory. Raises OSError if it cannot be listed."""
    checkpoints, findings = read_checkpoints(directory)
    yield from findings
    yield from check_meta_properties(directory)
    paths = sorted(directory.iterdir())
    yield from check_log_directory_names(paths)
    partitions = [path for path in paths if path.is_dir() and is_partition_name(path.name)]
    for path in partitions:
        surroundings = checkpoints.surroundings(parse_directory_name(path.name))
        yield from readable(path, verify_partition(path, surroundings, options, totals))
    names = {replica_name(path.name) for path in paths if path.is_dir()}
    there = {parse_directory_name(name) for name in names if is_partition_name(name)}
    for name, checkpoint in checkpoints.offsets.items():
        for partition in sorted(checkpoint.keys() - there):
            message = f"{partition} at offset {checkpoint[partition]} has no directory"
            yield Kind.MISSING_PARTITION.at(directory / name, message, offset=checkpoint[partition])


def check_meta_properties(directory: Path) -> Iterator[Finding]:
    """Check that `meta.properties` names a cluster and a node (1.4)."""
    path = directory / META_PROPERTIES
    if not path.exists():
        return
    try:
        properties = load_identity(directory)
    except ReplogError as error:
        yield Kind.MALFORMED.at(path, error.message)
        return
    missing = [name for name in ("version", "cluster.id") if name not in properties]
    if "node.id" not in properties and "broker.id" not in properties:
        missing.append("node.id")
    if missing:
        yield Kind.MALFORMED.at(path, f"there is no {', '.join(missing)}")


def readable(path: Path, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Turn an error of the disk, or of permissions, into a finding that ends the verification of `path`."""
    try:
        yield from findings
    except OSError as error:
        yield Kind.UNREADABLE.at(Path(error.filename) if error.filename else path, str(error))
    except LogStorageError as error:
        yield Kind.UNREADABLE.at(path, error.message)


def verify_partition(
    directory: Path, said: Surroundings, options: Options, totals: VerifiedTotals
) -> Iterator[Finding]:
    """Check everything in one partition directory, and the checkpoints beside it. Raises OSError."""
    bases = segment_bases(directory)
    yield from check_partition_names(directory.iterdir(), bases)
    yield from check_topic_id(directory)
    entries: Sequence[EpochEntry] | None = None
    try:
        entries = LeaderEpochCache.load(path := directory / LEADER_EPOCH_CHECKPOINT).entries
    except DamagedCheckpoint as damage:
        yield Kind.MALFORMED.at(path, damage.message)
    log_start = max(said.log_start or 0, bases[0] if bases else 0)
    # The checkpoint of log starts lags behind; the epochs follow at once (EP-5), which shows after a crash.
    known_from = max(log_start, entries[0][1] if said.unclean and entries else 0)
    flushed = said.flushed if any(directory.glob(f"*{DIGEST_SUFFIX}")) else None  # Kafka's has no digests and no lag
    epochs = EpochsVerified(directory, entries, log_start, said.unclean, flushed)
    compacted = said.compacted or options.compacted
    producers = Producers(known_from, compacted=compacted)
    progress = PartitionProgress(producers, epochs, totals, options, said.unclean, compacted)
    progress.snapshots = snapshot_files(directory)[::-1]
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
        try:
            read_snapshot(path)
        except CorruptSnapshot as damage:
            yield Kind.SNAPSHOT.at(path, damage.message)
        message = f"a snapshot at {offset}, and the log ends at {progress.end_offset}"
        yield Kind.SNAPSHOT_AHEAD.at(path, message, offset=offset)
    yield from epochs.finish(progress.end_offset)
    yield from _check_bounds(directory, said, known_from, progress.end_offset)


def check_topic_id(directory: Path) -> Iterator[Finding]:
    """Check `partition.metadata`, which old Kafka partitions do not have (1.4)."""
    path = directory / PARTITION_METADATA
    try:
        if read_topic_id(directory) is None and not _is_only_formatted(directory):
            yield Kind.NO_TOPIC_ID.at(path, "there is no such file")
    except LogStorageError as error:
        torn = isinstance(error, DamagedTopicId) and not has_records(directory)  # a broker starts it again
        yield (Kind.NO_TOPIC_ID if torn else Kind.MALFORMED).at(path, error.message)


def _is_only_formatted(directory: Path) -> bool:
    """Return True for the metadata of a Kafka controller that has never run: 4.4 formats them as a snapshot."""
    return {METADATA_SNAPSHOT.fullmatch(name) is None for name in os.listdir(directory)} == {False}


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
