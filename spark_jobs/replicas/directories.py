"""Replicas in a broker's log directory, ours or Apache Kafka's, read without trusting any of it."""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from replog.log.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    OffsetCheckpoint,
)
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
from replog.log.scan import BatchReader
from replog.log.verify.names import replica_name
from replog.topic import TopicPartition, parse_directory_name
from spark_jobs.replicas.files import (
    UNREADABLE,
    EpochCheckpoint,
    Listed,
    PartitionFiles,
    Segment,
    Vanished,
    epoch_checkpoint,
    segments_of,
)

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
        with contextlib.suppress(CorruptRecord):
            found.extend(islice(BatchReader(self._fd, self.size).headers(position), count))
        return found

    def headers_at(self, positions: Sequence[int]) -> list[tuple[int, BatchHeader]]:
        self.will_read(positions)
        found = []
        for position in positions:
            with contextlib.suppress(CorruptRecord):
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
        partition = TopicPartition(segment.topic, segment.partition)
        return self.directory / partition.directory_name / segment_file_name(segment.base, suffix)

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
            marks = OffsetCheckpoint(self.directory / HIGH_WATERMARK_CHECKPOINT).read()
            starts = OffsetCheckpoint(self.directory / LOG_START_CHECKPOINT).read()
            cleaned = OffsetCheckpoint(self.directory / CLEANER_CHECKPOINT).read()
            names = sorted(entry.name for entry in os.scandir(self.directory) if entry.is_dir())
        except (OSError, LogStorageError) as error:
            return [PartitionFiles(self, TopicPartition("", -1), error=str(error))]
        found: dict[TopicPartition, PartitionFiles] = {}
        for name in names:
            try:
                partition = parse_directory_name(replica_name(name))
            except ValueError:
                continue  # not a replica: on its way out ("-delete"), or somebody else's
            if partition.directory_name != name:  # a copy in the making ("-future"): no replica yet
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

    def log_start(self, partition: TopicPartition) -> int:
        try:
            marked = OffsetCheckpoint(self.directory / LOG_START_CHECKPOINT).read().get(partition, 0)
            bases = [base for base, _ in files_by_offset(self.directory / partition.directory_name, LOG_SUFFIX)]
        except FileNotFoundError as error:
            raise Vanished(f"the partition is gone: {error}") from None
        except LogStorageError as error:
            raise OSError(errno.EIO, error.message) from None
        return max(marked, min(bases, default=0))

    def _list(self, partition: TopicPartition, log_start: int, mark: int | None, cleaned_to: int) -> PartitionFiles:
        directory = self.directory / partition.directory_name
        try:
            bases = sorted(base for base, _ in files_by_offset(directory, LOG_SUFFIX))
            sizes = [os.stat(directory / segment_file_name(base, LOG_SUFFIX)).st_size for base in bases]
            following = [*bases[1:], None]
            digests = (
                None if after is None else self._digest(partition, base, after)
                for base, after in zip(bases, following, strict=True)
            )
            segments = segments_of(self, partition, list(map(Listed, bases, sizes, digests)), cleaned_to)
        except OSError as error:
            return PartitionFiles(self, partition, log_start, mark, error=str(error))
        start = max(log_start, bases[0]) if bases else log_start
        return PartitionFiles(self, partition, start, mark, segments, cleaned_to=cleaned_to)

    def _digest(self, partition: TopicPartition, base: int, next_base: int) -> int | None:
        name = segment_file_name(base, DIGEST_SUFFIX)
        return sealed_digest(self.directory / partition.directory_name / name, base, next_base)

    def epochs(self, partition: TopicPartition) -> EpochCheckpoint:
        path = self.directory / partition.directory_name / LEADER_EPOCH_CHECKPOINT
        try:
            raw = read_regular(path, MAX_CHECKPOINT_BYTES + 1)
        except FileNotFoundError:
            raw = b""
        except OSError as error:
            return EpochCheckpoint((), UNREADABLE, str(error), str(path))
        return epoch_checkpoint(raw, str(path))
