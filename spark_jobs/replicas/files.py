"""What a replica holds: partitions, segments and their files; and the store that they are read through.

A store is pickled into Spark's tasks: it opens what it needs when it is first asked, and `close` lets go of it.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from replog.topic import TopicPartition

UNREADABLE = "UNREADABLE"
EPOCH_CACHE_LIE = "EPOCH_CACHE_LIE"


class SegmentFile(Protocol):
    """One open file of a segment. It may grow; `size` is what it had when it was opened, in bytes."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes at `position`, fewer only at the end of the file. Raises OSError."""


class ReplicaStore(Protocol):
    """Where the replicas of one broker are read from. Errors are `OSError`s."""

    @property
    def replica(self) -> int:
        """The broker's id."""

    @property
    def place(self) -> str:
        """Where it is, for people: a log directory, or a broker's address."""

    def partitions(self, topics: frozenset[str]) -> "list[PartitionFiles]":
        """Every partition, of `topics` only unless empty. What cannot be read comes back as an error."""

    def epochs(self, partition: TopicPartition) -> "EpochCheckpoint":
        """The leader epoch checkpoint as it is now, checked for order (EP-1)."""

    def open(self, segment: "Segment", suffix: str) -> AbstractContextManager[SegmentFile]:
        """One of the segment's files: `.log`, `.index`, `.timeindex` or `.digest`. FileNotFoundError if it has none."""

    def close(self) -> None:
        """Let go of connections; the store may be used again."""


@dataclass(frozen=True)
class Segment:
    """One segment of one replica, and what the segments before it add up to."""

    store: ReplicaStore
    topic: str
    partition: int
    base: int
    next_base: int | None  # None: the last segment
    size: int  # bytes of the .log file
    bytes_before: int  # in the .log files of the earlier segments
    digest_before: int | None  # of the batches of the earlier segments; None if their digest indexes do not say

    @property
    def replica(self) -> int:
        return self.store.replica

    def open(self, suffix: str) -> AbstractContextManager[SegmentFile]:
        return self.store.open(self, suffix)

    def epochs(self) -> "EpochCheckpoint":
        return self.store.epochs(TopicPartition(self.topic, self.partition))


@dataclass(frozen=True)
class PartitionFiles:
    """One replica of one partition. `error` says why it could not be listed."""

    store: ReplicaStore
    partition: TopicPartition
    log_start: int = 0
    high_watermark: int | None = None  # None: the checkpoint does not name this partition
    segments: tuple[Segment, ...] = ()
    error: str | None = None

    @property
    def replica(self) -> int:
        return self.store.replica

    @property
    def place(self) -> str:
        return f"{self.store.place}/{self.partition.directory_name}"

    def epochs(self) -> "EpochCheckpoint":
        return self.store.epochs(self.partition)


@dataclass(frozen=True)
class EpochCheckpoint:
    """The entries of a `leader-epoch-checkpoint`; `fault` is a class of fault, `detail` says more."""

    entries: tuple[tuple[int, int], ...] = ()
    fault: str | None = None
    detail: str = ""
    path: str = field(default="", compare=False)


def in_ranges(segment: Segment, ranges: list[tuple[str, int, int, int]]) -> bool:
    """Whether the segment may hold an offset of one of `ranges` (topic, partition, first, last)."""
    return any(
        segment.topic == topic
        and segment.partition == partition
        and segment.base <= last
        and (segment.next_base is None or segment.next_base > first)
        for topic, partition, first, last in ranges
    )
