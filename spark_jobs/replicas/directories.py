"""Replicas in a broker's log directory, ours or Apache Kafka's, read without trusting any of it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path

from replog.log.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    RECOVERY_POINT_CHECKPOINT,
    DamagedCheckpoint,
    OffsetCheckpoint,
)
from replog.log.clean_shutdown import CLEAN_SHUTDOWN
from replog.log.digest import sealed_digest
from replog.log.errors import CorruptRecord, LogStorageError
from replog.log.files import (
    DIGEST_SUFFIX,
    LOG_SUFFIX,
    files_by_offset,
    open_regular,
    read_exactly,
    read_regular,
    segment_file_name,
)
from replog.log.partition_metadata import PARTITION_METADATA, format_topic_id, read_topic_id
from replog.log.scan import BatchReader
from replog.topic import SET_ASIDE, TopicPartition, parse_directory_name
from spark_jobs.replicas.faults import UNREADABLE
from spark_jobs.replicas.files import (
    NO_PARTITION,
    EpochCheckpoint,
    Listed,
    PartitionFiles,
    Segment,
    Vanished,
    epoch_checkpoint,
    segments_of,
)

LISTINGS = 5  # of a directory whose files go while it is listed
KRAFT_METADATA = "__cluster_metadata"
FAR = 12 * 1024  # bytes between headers from which on the system does not read ahead as far as the next one


class _OpenFile:
    """`SegmentFile` by pread, so that a disk error is an OSError."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size = os.fstat(fd).st_size

    def read(self, position: int, size: int) -> bytes:
        return read_exactly(self._fd, position, size)

    def headers(self, position: int, count: int) -> list[tuple[int, BatchHeader]]:
        found: list[tuple[int, BatchHeader]] = []
        with suppress(CorruptRecord):
            found.extend(islice(BatchReader(self._fd, self.size).headers(position), count))
        return found

    def headers_at(self, positions: Sequence[int]) -> list[tuple[int, BatchHeader]]:
        self.will_read(positions)
        found = []
        for position in positions:
            with suppress(CorruptRecord):
                found.append((position, parse_header(self.read(position, HEADER_SIZE))))
        return found

    def will_read(self, positions: Sequence[int]) -> None:
        """A disk fetches them side by side then, five times as fast as one after the other."""
        before = 0
        for position in positions:
            if before + FAR <= position < self.size:
                os.posix_fadvise(self._fd, position, HEADER_SIZE, os.POSIX_FADV_WILLNEED)
            before = position


@dataclass(frozen=True)
class DirectoryStore:
    """`ReplicaStore` of one of a broker's log.dirs. A broker with several has a store for each."""

    replica: int
    directory: Path

    @property
    def place(self) -> str:
        return str(self.directory)

    def path(self, segment: Segment, suffix: str) -> Path:
        return self.directory / segment.topic_partition.directory_name / segment_file_name(segment.base, suffix)

    @contextmanager
    def open(self, segment: Segment, suffix: str) -> Iterator[_OpenFile]:
        with open_regular(self.path(segment, suffix)) as fd:
            yield _OpenFile(fd)

    def close(self) -> None:
        """Nothing stays open."""

    def for_segments(self) -> "DirectoryStore":
        return self

    def partitions(self, topics: frozenset[str]) -> list[PartitionFiles]:
        """As `ReplicaStore` says; costs a stat a segment and one small read for each digest index."""
        try:
            with os.scandir(self.directory) as entries:
                # Read before the names: a replica that has a mark is there, or set aside.
                marks = _marks(self.directory / HIGH_WATERMARK_CHECKPOINT)
                starts = OffsetCheckpoint(self.directory / LOG_START_CHECKPOINT).read()
                cleaned = OffsetCheckpoint(self.directory / CLEANER_CHECKPOINT).read()
                names = sorted(entry.name for entry in entries if _may_be_directory(entry))
        except (OSError, LogStorageError) as error:
            return [PartitionFiles(self, NO_PARTITION, error=str(error))]
        found: dict[TopicPartition, PartitionFiles] = {}
        for name in names:
            set_aside = SET_ASIDE.fullmatch(name)
            try:
                partition = parse_directory_name(name if set_aside is None else set_aside["replica"])
            except ValueError:
                continue  # somebody else's
            if set_aside is not None:  # by the broker, which knows: a copy in the making, or one on its way out
                marks.pop(partition, None)
            elif partition.topic == KRAFT_METADATA and not topics:
                continue  # Kafka's quorum copies it by Raft, and no disk says what of it is committed
            elif not topics or partition.topic in topics:
                mark = marks.get(partition)
                found[partition] = self._list(partition, starts.get(partition, 0), mark, cleaned.get(partition, 0))
        for partition, mark in marks.items():
            if partition not in found and mark > 0 and (not topics or partition.topic in topics):
                found[partition] = PartitionFiles(self, partition, starts.get(partition, 0), mark)
        return [found[partition] for partition in sorted(found)]

    def again(self, partition: TopicPartition) -> PartitionFiles:
        directory = self.directory / partition.directory_name
        if not directory.is_dir():
            raise Vanished(f"{directory} is gone")
        try:
            log_start = OffsetCheckpoint(self.directory / LOG_START_CHECKPOINT).read().get(partition, 0)
            cleaned_to = OffsetCheckpoint(self.directory / CLEANER_CHECKPOINT).read().get(partition, 0)
        except LogStorageError as error:
            raise OSError(error.message) from None
        return self._list(partition, log_start, None, cleaned_to)

    def identity(self, partition: TopicPartition) -> str:
        """One that was moved aside and copied anew is another, even under the same inode number."""
        directory = self.directory / partition.directory_name
        written = 0
        with suppress(FileNotFoundError):
            written = os.stat(directory / PARTITION_METADATA).st_mtime_ns
        return f"{os.stat(directory).st_ino}-{written}"

    def _list(self, partition: TopicPartition, log_start: int, mark: int | None, cleaned_to: int) -> PartitionFiles:
        try:
            segments = segments_of(self, partition, self._listed(partition), cleaned_to)
        except OSError as error:
            return PartitionFiles(self, partition, log_start, mark, error=str(error))
        start = max(log_start, segments[0].base) if segments else log_start
        topic_id = None
        with suppress(LogStorageError):
            topic_id = read_topic_id(self.directory / partition.directory_name)
        told = None if topic_id is None else format_topic_id(topic_id)
        return PartitionFiles(self, partition, start, mark, segments, cleaned_to=cleaned_to, topic_id=told)

    def _listed(self, partition: TopicPartition) -> list[Listed]:
        """Lists again what retention takes from while it is listed."""
        for _ in range(LISTINGS - 1):
            with suppress(FileNotFoundError):
                return self._listed_once(partition)
        return self._listed_once(partition)

    def _listed_once(self, partition: TopicPartition) -> list[Listed]:
        directory = self.directory / partition.directory_name
        named = sorted(files_by_offset(directory, LOG_SUFFIX))
        for base, name in named:
            if name != segment_file_name(base, LOG_SUFFIX):
                raise OSError(f"{name!r} is no name of a segment's log; if nothing needs it, move it away")
        bases = [base for base, _ in named]
        sizes = [os.stat(directory / segment_file_name(base, LOG_SUFFIX)).st_size for base in bases]
        digests = [
            sealed_digest(directory / segment_file_name(at, DIGEST_SUFFIX), at, end) for at, end in pairwise(bases)
        ]
        return list(map(Listed, bases, sizes, [*digests, None]))

    def epochs(self, partition: TopicPartition) -> EpochCheckpoint:
        path = self.directory / partition.directory_name / LEADER_EPOCH_CHECKPOINT
        try:
            flushed = self._flushed(partition)  # read first: what is flushed later may have been noted later
            raw = read_regular(path, MAX_CHECKPOINT_BYTES + 1)
        except FileNotFoundError:
            raw = b""
        except OSError as error:
            return EpochCheckpoint((), UNREADABLE, str(error), str(path))
        found = epoch_checkpoint(raw, str(path))
        if flushed is None:
            return found
        # A broker that runs, or was killed, notes log starts once a minute.
        return replace(found, begin=found.entries[0][1] if found.entries else 0, flushed=flushed)

    def _flushed(self, partition: TopicPartition) -> int | None:
        """Up to where the epoch checkpoint says what the batches say; None: to the end (divergence 31)."""
        if (self.directory / CLEAN_SHUTDOWN).exists():
            return None
        path = self.directory / RECOVERY_POINT_CHECKPOINT
        version = (0, 0)
        with suppress(OSError):
            found = os.stat(path)
            version = found.st_ino, found.st_mtime_ns
        return _recovery_points(path, version).get(partition, 0)


@lru_cache(maxsize=8)
def _recovery_points(path: Path, _version: tuple[int, int]) -> dict[TopicPartition, int]:
    """None of a checkpoint that cannot be read: no replica is the worse for that. It is read once for all of them.

    A version is its file's inode and time: two that are written within one tick of the clock differ by inode alone.
    """
    with suppress(LogStorageError):
        return OffsetCheckpoint(path).read()
    return {}


def _marks(path: Path) -> dict[TopicPartition, int]:
    """High watermarks. Raises LogStorageError, also for one of what can be no partition: it would become a row."""
    marks = OffsetCheckpoint(path).read()
    for partition in marks:
        try:
            parse_directory_name(partition.directory_name)
        except ValueError as error:
            raise DamagedCheckpoint(f"{path}: {error}") from None
    return marks


def _may_be_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return True  # a link to itself, say: whoever lists it is told why not
