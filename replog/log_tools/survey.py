"""Surveys the replicas in a stopped broker's log directory: topic ids, leader epochs, log ends. Changes nothing.

Where the next start would cut off what is torn, the replica ends for the survey, too (SG-8, LD-10)."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from replog.errors import ErrorCode
from replog.log.directories.clean_shutdown import CLEAN_SHUTDOWN, log_dirs_of
from replog.log.directories.lock import held
from replog.log.directories.meta_properties import META_PROPERTIES, load_identity
from replog.log.directories.metadata_position import read_position
from replog.log.directories.partition_metadata import DamagedTopicId, read_topic_id
from replog.log.epochs import LeaderEpochCache
from replog.log.errors import CorruptSnapshot, storage_errors
from replog.log.files import filesystem
from replog.log.files.names import LOG_SUFFIX, segment_file_name
from replog.log.formats.batch import HEADER_SIZE, BatchHeader
from replog.log.formats.checkpoint import (
    CLEANER_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DamagedCheckpoint,
    OffsetCheckpoint,
)
from replog.log.formats.segment_file import open_file
from replog.log.formats.walk import WINDOW, Break, LogFile
from replog.log.offsets import NO_EPOCH
from replog.log.producers.snapshot import read_snapshot
from replog.log_tools.verify.names import is_partition_name, segment_bases, snapshot_files
from replog.topic import STRAY_SUFFIX, TopicPartition, parse_directory_name


class SurveyedReplica(NamedTuple):
    partition: TopicPartition
    topic_id: bytes
    last_epoch: int  # its last record's leader epoch; -1: it has no record
    log_end_offset: int
    seen_epoch: int  # the highest leader epoch that it knows; -1: none
    producer_id: int  # the highest that has written to it; -1: none
    compacted: bool  # the cleaner has noted that its topic is (CL-8)


class Survey(NamedTuple):
    """One log directory. `passed_over` names replicas that cannot be told apart from others, in words."""

    cluster_id: str
    broker_id: int
    replicas: list[SurveyedReplica]
    passed_over: list[str]
    metadata_version: int  # the newest that the broker knows
    log_dirs: int = 0  # the broker's number of them when it stopped in order; 0: not known
    written_ms: int | None = None  # wall clock; only set if it was read from a file


def survey(directory: Path) -> Survey:
    """Survey one log directory, whose broker does not run. Raises LogStorageError, INVALID_REQUEST if it is none."""
    cluster_id, broker_id = _identity(directory)
    replicas: list[SurveyedReplica] = []
    passed_over: list[str] = []
    with held(directory), storage_errors(directory):
        is_clean = (directory / CLEAN_SHUTDOWN).exists()
        if not is_clean:
            _make_durable(directory)
        recovery_points = {} if is_clean else _recovery_points(directory)
        compacted = _compacted(directory, passed_over)
        for path in sorted(directory.iterdir()):
            if path.name.endswith(STRAY_SUFFIX) and path.is_dir():
                passed_over.append(f"{path} was set aside (docs/backup.md) and does not count")
            if not path.is_dir() or not is_partition_name(path.name):
                continue
            tp = parse_directory_name(path.name)
            try:
                topic_id = read_topic_id(path)
            except DamagedTopicId as damage:
                passed_over.append(damage.message)
                continue
            if topic_id is None:
                passed_over.append(f"{path} does not name a topic id")
                continue
            sound_to = None if is_clean else recovery_points.get(tp, 0)
            replicas.append(SurveyedReplica(tp, topic_id, *_log(path, sound_to), compacted=tp in compacted))
    version = read_position(directory).version
    return Survey(cluster_id, broker_id, replicas, passed_over, version, log_dirs_of(directory))


def _identity(directory: Path) -> tuple[str, int]:
    path = directory / META_PROPERTIES
    properties = load_identity(directory)
    try:
        return properties["cluster.id"], int(properties["node.id"])
    except (KeyError, ValueError):
        raise ErrorCode.INVALID_REQUEST.error(
            f"{path} does not name a cluster.id and a node.id; name a broker's log directory"
        ) from None


def _make_durable(directory: Path) -> None:
    """Make a killed broker's writes durable before they are reported: no power loss may take them back then."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        if not filesystem.sync_filesystem(fd):
            os.sync()
    finally:
        os.close(fd)


def _recovery_points(directory: Path) -> dict[TopicPartition, int]:
    try:
        return OffsetCheckpoint(directory / RECOVERY_POINT_CHECKPOINT).read()
    except DamagedCheckpoint:
        return {}  # everything is checked then, as at a start (LD-9)


def _compacted(directory: Path, passed_over: list[str]) -> Collection[TopicPartition]:
    try:
        return OffsetCheckpoint(directory / CLEANER_CHECKPOINT).read()
    except DamagedCheckpoint as damage:
        passed_over.append(f"{damage.message}: which of its logs are compacted is not known")
        return ()


def _log(path: Path, sound_to: int | None) -> tuple[int, int, int, int]:
    """Return the last epoch, the log end, the highest epoch and producer id. Batches from `sound_to` on must prove to
    be sound; None: all are."""
    epochs = _epochs(path)
    bases = segment_bases(path) or [0]
    first = max(0, sum(base <= sound_to for base in bases) - 1) if sound_to is not None else len(bases) - 1
    log_end, epoch, producer_id = bases[first], NO_EPOCH, _producer_id(path)
    for base in bases[first:]:
        log_end = max(log_end, base)
        for header in _batches(path / segment_file_name(base, LOG_SUFFIX), log_end, check=sound_to is not None):
            if header is None:
                break
            log_end, epoch = header.next_offset, header.leader_epoch
            producer_id = max(producer_id, header.producer_id)
        else:
            continue
        break
    if epoch == NO_EPOCH and log_end > 0:
        epoch = max((of for of, start in epochs if start < log_end), default=NO_EPOCH)
    seen_epoch = max([epoch, *(of for of, _ in epochs)])
    return epoch, log_end, seen_epoch, producer_id


def _epochs(path: Path) -> tuple[tuple[int, int], ...]:
    try:
        return LeaderEpochCache.load(path / LEADER_EPOCH_CHECKPOINT).entries
    except DamagedCheckpoint:
        return ()


def _producer_id(path: Path) -> int:
    """Return the highest in the newest readable snapshot. Later producers are in the batches behind it."""
    for _, file in reversed(snapshot_files(path)):
        try:
            return max((entry.producer_id for entry in read_snapshot(file)), default=-1)
        except CorruptSnapshot:
            continue
    return -1


def _batches(path: Path, expected: int, *, check: bool) -> Iterator[BatchHeader | None]:
    """Yield the headers, from offset `expected` on; None in place of the first batch that cannot be right."""
    if not path.exists():
        return
    with open_file(path) as file:
        log, epoch = LogFile(file, WINDOW if check else HEADER_SIZE), NO_EPOCH
        for step in log.walk():
            if isinstance(step, Break) or not _continues(log, *step, expected, epoch, check=check):
                yield None
                return
            header = step[1]
            yield header
            expected, epoch = header.next_offset, header.leader_epoch


def _continues(log: LogFile, position: int, header: BatchHeader, expected: int, epoch: int, *, check: bool) -> bool:
    fits = header.base_offset >= expected and header.leader_epoch >= epoch
    return fits and (not check or log.crc(position, header) == header.crc)
