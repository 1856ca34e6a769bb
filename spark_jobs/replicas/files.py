"""What lies in a broker's log directory: partitions, segments and checkpoints, read without trusting any of it."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

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
from replog.log.errors import LogStorageError
from replog.log.files import DIGEST_SUFFIX, LOG_SUFFIX, base_offset_of, segment_file_name
from replog.log.verify.names import replica_name
from replog.topic import TopicPartition, parse_directory_name

DIGEST_ENTRY = Struct(">IQ")

UNREADABLE = "UNREADABLE"
EPOCH_CACHE_LIE = "EPOCH_CACHE_LIE"


@dataclass(frozen=True)
class Segment:
    """One segment of one replica, and what the segments before it add up to."""

    replica: int
    topic: str
    partition: int
    directory: str
    base: int
    next_base: int | None  # None: the last segment
    size: int  # bytes of the .log file
    bytes_before: int  # in the .log files of the earlier segments
    digest_before: int | None  # of the batches of the earlier segments; None if their digest indexes do not say

    def path(self, suffix: str) -> str:
        return os.path.join(self.directory, segment_file_name(self.base, suffix))


@dataclass(frozen=True)
class PartitionFiles:
    """One replica's directory. `error` says why it could not be listed."""

    replica: int
    partition: TopicPartition
    directory: str
    log_start: int = 0
    high_watermark: int | None = None  # None: the checkpoint does not name this partition
    segments: tuple[Segment, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class EpochCheckpoint:
    """The entries of a `leader-epoch-checkpoint`; `fault` is a class of fault, `detail` says more."""

    entries: tuple[tuple[int, int], ...] = ()
    fault: str | None = None
    detail: str = ""
    path: str = field(default="", compare=False)


def list_replica(replica: int, directory: Path, topics: frozenset[str]) -> list[PartitionFiles]:
    """Every partition in `directory`, of `topics` only unless empty. What cannot be read comes back as an error.

    Costs a stat a segment and one small read for each digest index; run where the directory is, not on the driver.
    """
    try:
        marks = OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).read()
        starts = OffsetCheckpoint(directory / LOG_START_CHECKPOINT).read()
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    except (OSError, LogStorageError) as error:
        return [PartitionFiles(replica, TopicPartition("", -1), str(directory), error=str(error))]
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
            found[partition] = _list_partition(replica, partition, directory / name, starts.get(partition, 0), mark)
    for partition, mark in marks.items():
        if partition not in found and mark > 0 and (not topics or partition.topic in topics):
            path = str(directory / partition.directory_name)
            found[partition] = PartitionFiles(replica, partition, path, high_watermark=mark)
    return [found[partition] for partition in sorted(found)]


def _list_partition(
    replica: int, partition: TopicPartition, directory: Path, log_start: int, mark: int | None
) -> PartitionFiles:
    try:
        bases = sorted(
            base
            for entry in os.scandir(directory)
            if entry.name.endswith(LOG_SUFFIX) and (base := base_offset_of(entry.name)) is not None
        )
        sizes = [os.stat(directory / segment_file_name(base, LOG_SUFFIX)).st_size for base in bases]
    except OSError as error:
        return PartitionFiles(replica, partition, str(directory), log_start, mark, error=str(error))
    segments = []
    bytes_before, digest_before = 0, 0
    known = True
    for base, next_base, size in zip(bases, [*bases[1:], None], sizes, strict=True):
        digest = digest_before if known else None
        segments.append(
            Segment(
                replica,
                partition.topic,
                partition.partition,
                str(directory),
                base,
                next_base,
                size,
                bytes_before,
                digest,
            )
        )
        bytes_before += size
        if next_base is not None:
            total = _sealed_digest(directory, base, next_base) if known else None
            known = total is not None
            digest_before = add_digests(digest_before, total or 0)
    start = max(log_start, bases[0]) if bases else log_start
    return PartitionFiles(replica, partition, str(directory), start, mark, tuple(segments))


def _sealed_digest(directory: Path, base: int, next_base: int) -> int | None:
    """The digest of a whole sealed segment, from the last entry of its digest index; None if it does not say."""
    try:
        with open(directory / segment_file_name(base, DIGEST_SUFFIX), "rb") as file:
            file.seek(-DIGEST_ENTRY.size, os.SEEK_END)
            relative, digest = DIGEST_ENTRY.unpack(file.read(DIGEST_ENTRY.size))
    except (OSError, ValueError):
        return None
    return int(digest) if base + relative == next_base - 1 else None


def read_epochs(directory: str) -> EpochCheckpoint:
    """The epoch checkpoint of a partition directory, checked for order (EP-1)."""
    path = Path(directory) / LEADER_EPOCH_CHECKPOINT
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


def in_ranges(segment: Segment, ranges: list[tuple[str, int, int, int]]) -> bool:
    """Whether the segment may hold an offset of one of `ranges` (topic, partition, first, last)."""
    return any(
        segment.topic == topic
        and segment.partition == partition
        and segment.base <= last
        and (segment.next_base is None or segment.next_base > first)
        for topic, partition, first, last in ranges
    )
