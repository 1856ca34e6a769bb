"""Writes lost files again: the indexes of a segment from its `.log`, ours or Kafka's, for a stopped broker, and a
replica's `partition.metadata` for somebody who knows the topic's id."""

import os
import re
import shutil
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from replog.errors import ErrorCode
from replog.log.directories.lock import held
from replog.log.directories.partition_metadata import (
    PARTITION_METADATA,
    DamagedTopicId,
    format_topic_id,
    read_topic_id,
    write_topic_id,
)
from replog.log.errors import CorruptRecord, CorruptSnapshot, IndexOffsetOverflow, storage_errors
from replog.log.files.names import (
    DIGEST_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from replog.log.files.replacing import fsync_directory, fsync_path
from replog.log.formats.batch import BatchHeader
from replog.log.formats.control_batch import marker_or_none
from replog.log.formats.segment_file import open_file
from replog.log.formats.walk import MAX_BATCH_IN_MEMORY, Break, LogFile, Step
from replog.log.indexes.entries import IndexFile
from replog.log.producers.snapshot import read_snapshot
from replog.log.producers.state import ProducerStateManager
from replog.log.segment import Segment
from replog.log_tools.verify.names import SEGMENT_FILE, is_partition_name, segment_bases
from replog.log_tools.verify.paths import path_kind

WORK_DIRECTORY = "rebuild.tmp"  # brokers ignore a directory in a partition's
_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, DIGEST_SUFFIX)
_BATCHES_PER_WRITE = 4096
_HEX, _BASE64 = re.compile(r"[0-9a-f]{32}"), re.compile(r"[A-Za-z0-9_-]{22}")


class RebuiltIndex(NamedTuple):
    """One index file: its entries before (None: there was no file) and after; `changed` says if its bytes are."""

    path: Path
    before: int | None
    after: int | None
    changed: bool


class RefusedSegment(NamedTuple):
    """A segment that was left as it is, and the reason."""

    path: Path
    reason: str


def rebuild(
    path: Path, interval: int, *, digest: bool = False, dry_run: bool = False
) -> Iterator[RebuiltIndex | RefusedSegment]:
    """Rebuild the indexes of a log directory, a partition directory or one `.log`, entries `interval` bytes apart.

    `digest` makes `.digest` files where there are none too; `dry_run` changes nothing. The new files replace the old
    ones one by one, each atomically and durably. Segments with a damaged `.log` are refused. Raises INVALID_REQUEST for
    another path, LogStorageError if a running broker holds the directory or if the disk fails."""
    kind = path_kind(path)
    log = SEGMENT_FILE.fullmatch(path.name)
    if kind == "file" and (log is None or log["suffix"] != LOG_SUFFIX):
        raise ErrorCode.INVALID_REQUEST.error(f"{path} is not a .log file: indexes are rebuilt from one")
    if kind == "log directory":
        partitions = sorted(child for child in path.iterdir() if child.is_dir() and is_partition_name(child.name))
    else:
        partitions = [path if kind == "partition" else path.parent]
    with held(partitions[0].resolve().parent if partitions else path):
        for directory in partitions:
            only = int(log["base"]) if log is not None else None
            yield from _rebuild_partition(directory, interval, only, digest=digest, dry_run=dry_run)


def _rebuild_partition(
    directory: Path, interval: int, only: int | None, *, digest: bool, dry_run: bool
) -> Iterator[RebuiltIndex | RefusedSegment]:
    """Rebuild all segments, or the one at base offset `only`; earlier ones show which transactions are open there."""
    with storage_errors(directory), _work_directory(directory, dry_run) as work:
        bases = segment_bases(directory)
        active = bases[-1] if bases else None
        if only is not None and _producers_at(directory, only) is not None:
            bases = [only]
        producers = _producers_at(directory, bases[0]) if bases else None
        producers = producers or ProducerStateManager()
        for base in (base for base in bases if only is None or base <= only):
            path = directory / segment_file_name(base, LOG_SUFFIX)
            try:
                producers = producers or _producers_at(directory, base)
                sealed = base != active or not path.with_suffix(DIGEST_SUFFIX).exists()
                _build(work, path, base, interval, producers, sealed=sealed)
            except (CorruptRecord, IndexOffsetOverflow) as damage:
                producers = None
                if only is None or base == only:
                    yield RefusedSegment(path, damage.message)
                continue
            if only is None or base == only:
                yield from _replace(directory, work, base, digest=digest, dry_run=dry_run)


@contextmanager
def _work_directory(directory: Path, dry_run: bool) -> Iterator[Path]:
    """Yield the place for the new files: in the partition's directory, so that a rename is enough."""
    if dry_run:
        with TemporaryDirectory(prefix="replog-rebuild-") as elsewhere:
            yield Path(elsewhere)
        return
    work = directory / WORK_DIRECTORY
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work)


def _producers_at(directory: Path, base: int) -> ProducerStateManager | None:
    """Return the producers' state where a segment begins, if there is a snapshot of it."""
    try:
        entries = read_snapshot(directory / segment_file_name(base, SNAPSHOT_SUFFIX))
    except (FileNotFoundError, CorruptSnapshot):
        return None
    producers = ProducerStateManager()
    producers.load(entries)
    return producers


def _build(
    work: Path, path: Path, base: int, interval: int, producers: ProducerStateManager | None, *, sealed: bool
) -> None:
    """Account for every batch of the `.log` at `path`, by the same rule as appends and recovery. Raises CorruptRecord.

    Ours are not sealed while they are active; Kafka's brokers rely on the final entry of the time index."""
    if producers is None:
        raise CorruptRecord("a segment before it is damaged, so the transactions that are open here are not known")
    segment = Segment(work, base)
    for index in segment.indexes:
        index.reset()
    with open_file(path) as file:
        log = LogFile(file)
        for number, step in enumerate(log.walk()):
            position, header = _sound(log, step, segment.next_offset)
            segment.add(header, interval)
            if header.producer_id >= 0:
                held = header.size <= MAX_BATCH_IN_MEMORY
                marker = marker_or_none(log.read(position, header.size), header) if held else None
                if (aborted := producers.update(header, marker)) is not None:
                    segment.transaction_index.append(aborted)
                producers.replicated_to(segment.next_offset)  # decided transactions would take memory
            if number % _BATCHES_PER_WRITE == 0:
                segment.write_indexes()
    segment.write_indexes()
    if sealed:
        segment.seal()
    segment.close()


def _sound(log: LogFile, step: Step, next_offset: int) -> tuple[int, BatchHeader]:
    if isinstance(step, Break):
        wrong = step.reason
    elif log.crc(*step) != step[1].crc:
        wrong = f"the CRC of the batch of offset {step[1].base_offset} is wrong"
    elif step[1].base_offset < next_offset:
        wrong = f"offset {step[1].base_offset} where {next_offset} was to come"
    else:
        return step
    raise CorruptRecord(
        f"at {step[0]}: {wrong}; see `replog log verify`, and let the broker recover it or copy it again"
    )


def _replace(directory: Path, work: Path, base: int, *, digest: bool, dry_run: bool) -> Iterator[RebuiltIndex]:
    owner = (directory / segment_file_name(base, LOG_SUFFIX)).stat()
    for suffix in _SUFFIXES:
        new, old = (where / segment_file_name(base, suffix) for where in (work, directory))
        if suffix == DIGEST_SUFFIX and not digest and not old.exists():
            continue
        before, after = (_entries(path, suffix) for path in (old, new))
        changed = before != after or (after is not None and not _same(old, new))
        if changed and not dry_run:
            if after is None:
                old.unlink()
            else:
                _adopt(new, owner)
                os.replace(new, old)
        if before is not None or after is not None:
            yield RebuiltIndex(old, before, after, changed)
    if not dry_run:
        fsync_directory(directory)


def _entries(path: Path, suffix: str) -> int | None:
    """Count the entries, without unused space; None if there is no file."""
    try:
        with open_file(path) as file:
            return IndexFile(file, suffix).count
    except FileNotFoundError:
        return None


def _same(first: Path, second: Path) -> bool:
    """Compare two index files, which are small: by default up to 10 MiB."""
    return first.stat().st_size == second.stat().st_size and first.read_bytes() == second.read_bytes()


def _adopt(path: Path, owner: os.stat_result) -> None:
    """Give a file the log's owner and permissions, durably, so that its broker can open it."""
    if (os.geteuid(), os.getegid()) != (owner.st_uid, owner.st_gid):
        os.chown(path, owner.st_uid, owner.st_gid)
    os.chmod(path, owner.st_mode & 0o777)
    fsync_path(path)


def parse_topic_id(text: str) -> bytes:
    """Parse an id as `replog topic describe` and Kafka show it. Raises INVALID_REQUEST."""
    topic_id = bytes.fromhex(text) if _HEX.fullmatch(text) else b""
    if _BASE64.fullmatch(text):
        topic_id = urlsafe_b64decode(text + "==")
    if topic_id in (b"", bytes(16)):
        raise ErrorCode.INVALID_REQUEST.error(
            f"topic id {text!r} is neither 32 hex digits nor 22 characters of base64; see replog topic describe"
        )
    return topic_id


def restore_topic_id(directory: Path, topic_id: bytes) -> None:
    """Write the file if none names a topic; a running broker then opens the replica. Raises LogStorageError, and
    INVALID_REQUEST if it is no partition's directory, or names another topic."""
    if path_kind(directory) != "partition":
        raise ErrorCode.INVALID_REQUEST.error(f"{directory} is not the directory of a partition")
    try:
        there = read_topic_id(directory)
    except DamagedTopicId:
        there = None
    if there not in (None, topic_id):
        raise ErrorCode.INVALID_REQUEST.error(
            f"{directory} belongs to topic {format_topic_id(there or b'')}; if that is wrong, move the directory away"
        )
    write_topic_id(directory, topic_id)
    with suppress(PermissionError):  # otherwise root's file is not the broker's
        owner = directory.stat()
        os.chown(directory / PARTITION_METADATA, owner.st_uid, owner.st_gid)
