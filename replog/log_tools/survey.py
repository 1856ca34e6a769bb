"""Surveys the replicas in a stopped broker's log directory: topic ids, leader epochs, log ends. Changes nothing.

Where the next start would cut off what is torn, the replica ends for the survey, too (SG-8, LD-10).

A survey that is written on a broker's host is read where a metadata store is restored. In the file is one JSON object a
line: first the broker, then each directory with as many lines as it announces, so that a cut file is noticed."""

import json
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import CLEAN_SHUTDOWN, META_PROPERTIES, load_identity, log_dirs_of, read_position
from replog.log.directories.lock import held
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

FORMAT = 2
MAX_LINE = 4096  # characters
MAX_DIRECTORIES = 1000
MAX_REPLICAS = 200_000  # one directory's, with those passed over
_MAX = {"broker_id": (1 << 31) - 1, "last_epoch": 1 << 30, "seen_epoch": 1 << 30}
_MAX_OTHERS = 1 << 62  # a restored store needs room above these limits
_NUMBERS = ("last_epoch", "log_end_offset", "seen_epoch", "producer_id")


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


def survey_lines(surveys: Sequence[Survey], now_ms: int) -> Iterator[str]:
    """Write all log directories of one broker, at a wall clock time. Raises INVALID_REQUEST if they are of several."""
    first = surveys[0]
    if len(brokers := {(each.cluster_id, each.broker_id) for each in surveys}) > 1:
        raise ErrorCode.INVALID_REQUEST.error(f"the directories are of {len(brokers)} brokers; name those of one")
    broker = {"cluster_id": first.cluster_id, "broker_id": first.broker_id, "written_ms": now_ms}
    yield json.dumps({"replog_survey": FORMAT, **broker, "directories": len(surveys)})
    for each in surveys:
        count = {"replicas": len(each.replicas), "passed_over": len(each.passed_over)}
        yield json.dumps({"metadata_version": each.metadata_version, "log_dirs": each.log_dirs, **count})
        for replica in each.replicas:
            numbers = {name: getattr(replica, name) for name in _NUMBERS}
            name, topic_id = str(replica.partition), replica.topic_id.hex()
            yield json.dumps({"replica": name, "topic_id": topic_id, **numbers, "compacted": replica.compacted})
        for words in each.passed_over:
            yield json.dumps({"passed_over": words[: MAX_LINE // 8]})


def read_survey_file(path: Path) -> list[Survey]:
    """Read a survey. Raises KAFKA_STORAGE_ERROR if that fails, INVALID_REQUEST if it is not a whole survey file."""
    with storage_errors(path), path.open(encoding="utf-8", errors="replace") as file:
        lines = _Lines(path, file)
        broker = lines.next()
        lines.check(broker.get("replog_survey") == FORMAT, f"does not begin with replog_survey {FORMAT}")
        cluster_id, broker_id = broker.get("cluster_id"), lines.number(broker, "broker_id")
        lines.check(isinstance(cluster_id, str) and 0 < len(cluster_id) <= 64, "has no cluster_id")
        count = lines.number(broker, "directories")
        lines.check(1 <= count <= MAX_DIRECTORIES, f"has not 1 to {MAX_DIRECTORIES} directories")
        written_ms = lines.number(broker, "written_ms")
        surveys = [_directory(lines, str(cluster_id), broker_id, written_ms) for _ in range(count)]
        lines.check(not file.read(1), "goes on after its end")
    return surveys


def _directory(lines: "_Lines", cluster_id: str, broker_id: int, written_ms: int) -> Survey:
    head = lines.next()
    version, log_dirs = lines.number(head, "metadata_version"), lines.number(head, "log_dirs")
    replicas, passed_over = lines.number(head, "replicas"), lines.number(head, "passed_over")
    lines.check(replicas + passed_over <= MAX_REPLICAS, f"has more than {MAX_REPLICAS} replicas in a directory")
    held = [_replica(lines) for _ in range(replicas)]
    lines.check(len({replica.partition for replica in held}) == replicas, "has a replica twice")
    words = [str(lines.next().get("passed_over", "?")) for _ in range(passed_over)]
    return Survey(cluster_id, broker_id, held, words, version, log_dirs, written_ms)


def _replica(lines: "_Lines") -> SurveyedReplica:
    row = lines.next()
    try:
        partition, topic_id = parse_directory_name(row["replica"]), bytes.fromhex(row["topic_id"])
    except (KeyError, TypeError, ValueError):
        raise lines.error("names no replica and topic id") from None
    lines.check(len(topic_id) == 16, "has a topic id that is not of 16 bytes")
    compacted = row.get("compacted")
    if not isinstance(compacted, bool):
        raise lines.error("does not say whether a replica is compacted")
    numbers = (lines.number(row, name, least=-1) for name in _NUMBERS)
    return SurveyedReplica._make((partition, topic_id, *numbers, compacted))


class _Lines:
    """Reads the lines of a file that may be anything."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        self._file = file
        self._number = 0

    def next(self) -> dict[str, Any]:
        self._number += 1
        line = self._file.readline(MAX_LINE + 1)
        self.check(line.endswith("\n") and len(line) <= MAX_LINE, "is cut off, or too long")
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise self.error("is no JSON object")
        return row

    def number(self, row: dict[str, Any], name: str, least: int = 0) -> int:
        value = row.get(name)
        if type(value) is not int or not least <= value <= _MAX.get(name, _MAX_OTHERS):
            raise self.error(f"has a {name} that is none")
        return value

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            raise self.error(what)

    def error(self, what: str) -> ReplogError:
        return ErrorCode.INVALID_REQUEST.error(
            f"{self._path} {what} (line {self._number}); write it again: replog log survey --help"
        )
