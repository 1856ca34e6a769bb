"""Finds out if a path is a log directory, a partition directory or a single file, and verifies it: of a log directory
its checkpoints, its identity, its lock, and every partition in it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.clean_shutdown import CLEAN_SHUTDOWN
from replog.log.directories.lock import LOCK, is_locked
from replog.log.directories.meta_properties import META_PROPERTIES, load_identity
from replog.log.directories.partition_metadata import PARTITION_METADATA
from replog.log.errors import LogStorageError
from replog.log.files.names import LOG_SUFFIX, SNAPSHOT_SUFFIX
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
from replog.log_tools.checker.findings import Finding, Kind, capped
from replog.log_tools.verify.names import (
    LOG_DIRECTORY_FILES,
    PARTITION_FILES,
    SEGMENT_FILE,
    check_log_directory_names,
    is_partition_name,
    replica_name,
    segment_bases,
)
from replog.log_tools.verify.partition import (
    Surroundings,
    begun,
    check_snapshot_file,
    check_topic_id,
    verify_partition,
)
from replog.log_tools.verify.segment import Options, VerifiedTotals, check_segment, read_epochs
from replog.topic import TopicPartition, parse_directory_name


def verify(paths: Sequence[Path], options: Options, totals: VerifiedTotals) -> Iterator[Finding]:
    """Yield everything found in `paths`: log directories, partition directories and single files, ours or Kafka's.

    Nothing is written. An unreadable file is a finding. Raises INVALID_REQUEST, before anything is read, for a path
    that is none of these."""
    for path in paths:
        path_kind(path)
    for path in paths:
        yield from capped(readable(path, _verify(path, options, totals)))


def log_bytes(path: Path) -> int:
    """Return the bytes of `.log` files that `verify` will read: a measure of its progress."""
    files = [path] if path.is_file() else [*path.glob(f"*{LOG_SUFFIX}"), *path.glob(f"*/*{LOG_SUFFIX}")]
    try:
        return sum(file.stat().st_size for file in files if file.suffix == LOG_SUFFIX)
    except OSError:
        return 0


def is_partition_directory(path: Path) -> bool:
    """Return True if it has the files of a partition, or nothing but the name of one."""
    names = {file.name for file in path.iterdir()}
    return _are_of_a_partition(names) or (is_partition_name(path.resolve().name) and not names & LOG_DIRECTORY_FILES)


def _are_of_a_partition(names: set[str]) -> bool:
    return bool(names & PARTITION_FILES) or any(SEGMENT_FILE.fullmatch(name) for name in names)


def is_log_directory(path: Path) -> bool:
    """Return True if it has the files of a log directory, or partitions that have files."""
    files = list(path.iterdir())
    partitions = (file for file in files if is_partition_name(file.name) and file.is_dir())
    return any(file.name in LOG_DIRECTORY_FILES for file in files) or any(
        _are_of_a_partition({inner.name for inner in partition.iterdir()}) for partition in partitions
    )


def path_kind(path: Path) -> str:
    """Return `log directory`, `partition` or `file`. Raises INVALID_REQUEST for a path that is none of them."""
    known = {LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, META_PROPERTIES, *OFFSET_CHECKPOINTS}
    try:
        if path.is_dir():
            if is_partition_directory(path):
                return "partition"
            if is_log_directory(path):
                return "log directory"
        elif path.is_file() and (SEGMENT_FILE.fullmatch(path.name) or path.name in known):
            return "file"
    except OSError as error:
        raise ErrorCode.INVALID_REQUEST.error(f"cannot read {path}: {error}") from None
    if not path.exists():
        raise ErrorCode.INVALID_REQUEST.error(f"no such file or directory: {path}")
    raise ErrorCode.INVALID_REQUEST.error(
        f"{path} is neither a log directory, nor a partition's directory, nor a file of one"
    )


def _verify(path: Path, options: Options, totals: VerifiedTotals) -> Iterator[Finding]:
    kind = path_kind(path)
    if kind == "log directory":
        yield from verify_log_directory(path, options, totals)
    elif kind == "partition":
        surroundings, findings = surroundings_of(path)
        yield from (finding for finding in findings if finding.kind is Kind.IN_USE)
        yield from verify_partition(path, surroundings, options, totals)
    else:
        yield from _verify_file(path, options, totals)


def surroundings_of(partition: Path) -> tuple[Surroundings, list[Finding]]:
    """Return the knowledge of the log directory around a partition directory, and the faults of its files."""
    directory = partition.resolve()
    checkpoints, findings = read_checkpoints(directory.parent)
    known = parse_directory_name(directory.name) if is_partition_name(directory.name) else None
    return checkpoints.surroundings(known), findings


def _verify_file(path: Path, options: Options, totals: VerifiedTotals) -> Iterator[Finding]:
    """Check one file by itself; a segment's `.log` or index stands for the segment, without those before it."""
    segment = SEGMENT_FILE.fullmatch(path.name)
    if segment is not None and segment["suffix"] == SNAPSHOT_SUFFIX:
        yield from check_snapshot_file(path)
    elif segment is not None:
        yield from _verify_segment(path.parent, int(segment["base"]), options, totals)
    elif path.name == PARTITION_METADATA:
        yield from check_topic_id(path.parent)
    elif path.name == META_PROPERTIES:
        yield from check_meta_properties(path.parent)
    elif path.name == LEADER_EPOCH_CHECKPOINT:
        yield from read_epochs(path)[1]
    else:
        yield from (finding for finding in read_checkpoints(path.parent)[1] if finding.file == path)


def _verify_segment(directory: Path, base: int, options: Options, totals: VerifiedTotals) -> Iterator[Finding]:
    surroundings, _ = surroundings_of(directory)
    bases = segment_bases(directory)
    if base not in bases:
        yield Kind.ORPHAN.at(directory / f"{base:020d}{LOG_SUFFIX}", "there is no such file")
        return
    progress, _ = begun(directory, bases, surroundings, options, totals, base)
    next_base = next((following for following in bases if following > base), None)
    yield from check_segment(directory, base, next_base, progress)
    yield from progress.epochs.settle()
    totals.segments += 1


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
