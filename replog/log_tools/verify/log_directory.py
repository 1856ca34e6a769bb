"""Checks a log directory: its checkpoints, its identity, its lock, and every partition in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from replog.errors import ReplogError
from replog.log.directories.clean_shutdown import CLEAN_SHUTDOWN
from replog.log.directories.lock import LOCK, is_locked
from replog.log.directories.meta_properties import META_PROPERTIES, load_identity
from replog.log.errors import LogStorageError
from replog.log.formats.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINT_CHECKPOINT,
    DamagedCheckpoint,
    OffsetCheckpoint,
)
from replog.log_tools.checker.findings import Finding, Kind
from replog.log_tools.verify.names import check_log_directory_names, is_partition_name, replica_name
from replog.log_tools.verify.partition import Options, Surroundings, verify_partition
from replog.log_tools.verify.segment import VerifiedTotals
from replog.topic import TopicPartition, parse_directory_name


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
