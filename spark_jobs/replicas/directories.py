"""Replicas in a broker's log directory, ours or Apache Kafka's, read without trusting any of it."""

import os
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from replog.config.properties import MAX_LONG
from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log.directories.partition_metadata import PARTITION_METADATA, format_topic_id, read_topic_id
from replog.log.errors import LogStorageError
from replog.log.files.names import DIGEST_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, segment_file_name
from replog.log.files.opening import files_by_offset, read_regular
from replog.log.formats.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    RECOVERY_POINT_CHECKPOINT,
    DamagedCheckpoint,
    OffsetCheckpoint,
)
from replog.log.formats.segment_file import LocalFile, Vanished, open_file
from replog.log.indexes.index import sealed_digest
from replog.topic import SET_ASIDE, TopicPartition, parse_directory_name
from spark_jobs.replicas.faults import UNREADABLE
from spark_jobs.replicas.files import (
    NO_PARTITION,
    EpochCheckpoint,
    Listed,
    PartitionFiles,
    ReplicaSegment,
    epoch_checkpoint,
    segments_of,
)

LISTINGS = 5  # tries at a directory whose files go while it is listed
KRAFT_METADATA = "__cluster_metadata"


@dataclass(frozen=True)
class DirectoryStore:
    """The `ReplicaStore` of one of a broker's log.dirs. A broker with several has a store for each."""

    replica: int
    directory: Path

    @property
    def place(self) -> str:
        return str(self.directory)

    def path(self, segment: ReplicaSegment, suffix: str) -> Path:
        return self.directory / segment.topic_partition.directory_name / segment_file_name(segment.base, suffix)

    def open(self, segment: ReplicaSegment, suffix: str) -> AbstractContextManager[LocalFile]:
        return open_file(self.path(segment, suffix))

    def snapshots(self, segment: ReplicaSegment) -> list[int]:
        named = files_by_offset(self.directory / segment.topic_partition.directory_name, SNAPSHOT_SUFFIX)
        end = MAX_LONG if segment.next_base is None else segment.next_base
        return sorted(offset for offset, _ in named if segment.base <= offset <= end)

    def close(self) -> None:
        """Do nothing, for nothing stays open."""

    def for_segments(self) -> "DirectoryStore":
        return self

    def partitions(self, topics: frozenset[str]) -> list[PartitionFiles]:
        """List every partition. It costs a stat for each segment, and a small read for each digest index."""
        try:
            with os.scandir(self.directory) as entries:
                # Read before the names, otherwise a replica made meanwhile would have a mark but no directory.
                marks = _marks(self.directory / HIGH_WATERMARK_CHECKPOINT)
                starts = OffsetCheckpoint(self.directory / LOG_START_CHECKPOINT).read()
                cleaned = OffsetCheckpoint(self.directory / CLEANER_CHECKPOINT).read()
                names = sorted(entry.name for entry in entries if _may_be_directory(entry))
        except (OSError, LogStorageError) as error:
            return [PartitionFiles(self, NO_PARTITION, error=str(error))]
        files: dict[TopicPartition, PartitionFiles] = {}
        for name in names:
            set_aside = SET_ASIDE.fullmatch(name)
            try:
                partition = parse_directory_name(name if set_aside is None else set_aside["replica"])
            except ValueError:
                continue  # not a partition's directory
            if set_aside is not None:  # the broker did: a future copy, or one to be deleted
                marks.pop(partition, None)
            elif partition.topic == KRAFT_METADATA and not topics:
                continue  # Kafka's quorum copies it by Raft, and no disk has its high watermark
            elif not topics or partition.topic in topics:
                mark = marks.get(partition)
                files[partition] = self._list(partition, starts.get(partition, 0), mark, cleaned.get(partition, 0))
        for partition, mark in marks.items():
            if partition not in files and mark > 0 and (not topics or partition.topic in topics):
                files[partition] = PartitionFiles(self, partition, starts.get(partition, 0), mark)
        return [files[partition] for partition in sorted(files)]

    def again(self, partition: TopicPartition) -> PartitionFiles:
        directory = self.directory / partition.directory_name
        if not directory.is_dir():
            raise Vanished(f"{directory} is gone")
        return self._list(partition, 0, None, 0)

    def identity(self, partition: TopicPartition) -> str:
        """Return the inode and the time of partition.metadata: a copy made again may get the same inode number."""
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
        shown_id = None if topic_id is None else format_topic_id(topic_id)
        return PartitionFiles(self, partition, start, mark, segments, cleaned_to=cleaned_to, topic_id=shown_id)

    def _listed(self, partition: TopicPartition) -> list[Listed]:
        """List segments; again if retention deletes some meanwhile."""
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
            unclean = not (self.directory / CLEAN_SHUTDOWN).exists()
            # Read before the epochs, which are written before records of them are flushed.
            flushed = self._flushed(partition) if unclean else None
            raw = read_regular(path, MAX_CHECKPOINT_BYTES + 1)
        except FileNotFoundError:
            raw = b""
        except OSError as error:
            return EpochCheckpoint((), UNREADABLE, str(error), str(path))
        return replace(epoch_checkpoint(raw, str(path)), unclean=unclean, flushed=flushed)

    def _flushed(self, partition: TopicPartition) -> int | None:
        """Return the offset up to which the epoch checkpoint is complete if a broker runs or was killed.

        None: up to the end, as for Kafka's, which has no digest indexes (divergence 31).
        """
        if not any(name.endswith(DIGEST_SUFFIX) for name in os.listdir(self.directory / partition.directory_name)):
            return None
        path = self.directory / RECOVERY_POINT_CHECKPOINT
        version = (0, 0)
        with suppress(OSError):
            stat = os.stat(path)
            version = stat.st_ino, stat.st_mtime_ns
        return _recovery_points(path, version).get(partition, 0)


@lru_cache(maxsize=8)
def _recovery_points(path: Path, _version: tuple[int, int]) -> dict[TopicPartition, int]:
    """Return the recovery points, read once for all replicas; none if they cannot be read, which is no fault.

    A version is the file's inode and time: two that are written within one tick of the clock differ only by inode.
    """
    with suppress(LogStorageError):
        return OffsetCheckpoint(path).read()
    return {}


def _marks(path: Path) -> dict[TopicPartition, int]:
    """Return the high watermarks. Raises LogStorageError, also for one of an impossible partition."""
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
        return True  # such as a link to itself: an attempt to list it gives the reason
