"""Replicas in a broker's log directory, ours or Apache Kafka's, read without trusting any of it."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from struct import Struct

from replog.log.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    DamagedCheckpoint,
    OffsetCheckpoint,
    parse_number,
    read_entries,
)
from replog.log.digest import add_digests
from replog.log.errors import CorruptRecord, LogStorageError
from replog.log.files import DIGEST_SUFFIX, LOG_SUFFIX, files_by_offset, read_exactly, segment_file_name
from replog.log.scan import BatchReader
from replog.log.verify.names import replica_name
from replog.topic import TopicPartition, parse_directory_name
from spark_jobs.replicas.files import EPOCH_CACHE_LIE, UNREADABLE, EpochCheckpoint, PartitionFiles, Segment

DIGEST_ENTRY = Struct(">IQ")


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
        found = []
        for position in positions:
            with contextlib.suppress(CorruptRecord):
                found.append((position, parse_header(self.read(position, HEADER_SIZE))))
        return found


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
        fd = os.open(self.path(segment, suffix), os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield _OpenFile(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Nothing stays open."""

    def partitions(self, topics: frozenset[str]) -> list[PartitionFiles]:
        """As `ReplicaStore` says; costs a stat a segment and one small read for each digest index."""
        try:
            marks = OffsetCheckpoint(self.directory / HIGH_WATERMARK_CHECKPOINT).read()
            starts = OffsetCheckpoint(self.directory / LOG_START_CHECKPOINT).read()
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
            elif not topics or partition.topic in topics:
                mark = marks.get(partition)
                found[partition] = self._list(partition, starts.get(partition, 0), mark)
        for partition, mark in marks.items():
            if partition not in found and mark > 0 and (not topics or partition.topic in topics):
                found[partition] = PartitionFiles(self, partition, high_watermark=mark)
        return [found[partition] for partition in sorted(found)]

    def log_start(self, partition: TopicPartition) -> int:
        marked = OffsetCheckpoint(self.directory / LOG_START_CHECKPOINT).read().get(partition, 0)
        bases = [base for base, _ in files_by_offset(self.directory / partition.directory_name, LOG_SUFFIX)]
        return max(marked, min(bases, default=0))

    def _list(self, partition: TopicPartition, log_start: int, mark: int | None) -> PartitionFiles:
        directory = self.directory / partition.directory_name
        try:
            bases = sorted(base for base, _ in files_by_offset(directory, LOG_SUFFIX))
            sizes = [os.stat(directory / segment_file_name(base, LOG_SUFFIX)).st_size for base in bases]
        except OSError as error:
            return PartitionFiles(self, partition, log_start, mark, error=str(error))
        segments = []
        bytes_before, digest_before = 0, 0
        known = True
        for base, next_base, size in zip(bases, [*bases[1:], None], sizes, strict=True):
            digest = digest_before if known else None
            segments.append(
                Segment(self, partition.topic, partition.partition, base, next_base, size, bytes_before, digest)
            )
            bytes_before += size
            if next_base is not None:
                total = _sealed_digest(directory, base, next_base) if known else None
                known = total is not None
                digest_before = add_digests(digest_before, total or 0)
        start = max(log_start, bases[0]) if bases else log_start
        return PartitionFiles(self, partition, start, mark, tuple(segments))

    def epochs(self, partition: TopicPartition) -> EpochCheckpoint:
        path = self.directory / partition.directory_name / LEADER_EPOCH_CHECKPOINT
        try:
            words = read_entries(path, 2)
            entries = tuple((parse_number(path, epoch), parse_number(path, start)) for epoch, start in words)
        except DamagedCheckpoint as error:
            return EpochCheckpoint((), EPOCH_CACHE_LIE, error.message, str(path))
        except (OSError, LogStorageError) as error:
            return EpochCheckpoint((), UNREADABLE, str(error), str(path))
        previous = (-1, -1)
        for entry in entries:
            if entry[0] <= previous[0] or entry[1] <= previous[1]:
                detail = f"entry {entry} does not follow {previous}: epochs and offsets must increase"
                return EpochCheckpoint(entries, EPOCH_CACHE_LIE, detail, str(path))
            previous = entry
        return EpochCheckpoint(entries, path=str(path))


def _sealed_digest(directory: Path, base: int, next_base: int) -> int | None:
    """The digest of a whole sealed segment, from the last entry of its digest index; None if it does not say."""
    try:
        with open(directory / segment_file_name(base, DIGEST_SUFFIX), "rb") as file:
            file.seek(-DIGEST_ENTRY.size, os.SEEK_END)
            relative, digest = DIGEST_ENTRY.unpack(file.read(DIGEST_ENTRY.size))
    except (OSError, ValueError):
        return None
    return int(digest) if base + relative == next_base - 1 else None
