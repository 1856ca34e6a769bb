"""What a replica holds: partitions, segments and their files; and the store that they are read through.

A store is pickled into Spark's tasks: it opens what it needs when it is first asked, and `close` lets go of it.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from replog.log.epochs import checked_epochs
from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.batch import MAX_BASE_OFFSET
from replog.log.formats.checkpoint import DamagedCheckpoint, parse_entries
from replog.log.formats.digest import add_digests
from replog.log.formats.segment_file import SegmentFile, Vanished
from replog.log.formats.walk import WINDOW, LogFile
from replog.properties import MAX_LONG
from replog.topic import TopicPartition
from spark_jobs.replicas.faults import EPOCH_CACHE_LIE

NO_PARTITION = TopicPartition("", -1)


class ReplicaStore(Protocol):
    """Where the replicas of one broker are read from. Errors are `OSError`s."""

    @property
    def replica(self) -> int:
        """The broker's id."""

    @property
    def place(self) -> str:
        """Where it is, for people: a log directory, or a broker's address."""

    def for_segments(self) -> "ReplicaStore":
        """What it takes to read segments: it goes with every task."""

    def partitions(self, topics: frozenset[str]) -> "list[PartitionFiles]":
        """Every partition, of `topics` only unless empty. What cannot be read comes back as an error."""

    def epochs(self, partition: TopicPartition) -> "EpochCheckpoint":
        """The leader epoch checkpoint as it is now, checked for order (EP-1)."""

    def again(self, partition: TopicPartition) -> "PartitionFiles":
        """The partition as it is now; digests may be left out. Raises Vanished if it is gone."""

    def identity(self, partition: TopicPartition) -> str:
        """Of the directory: one that takes its place has another. Empty if nobody knows."""

    def open(self, segment: "ReplicaSegment", suffix: str) -> AbstractContextManager[SegmentFile]:
        """One of the segment's files, by its suffix. Raises FileNotFoundError if it has none."""

    def snapshots(self, segment: "ReplicaSegment") -> list[int] | None:
        """The offsets of the producer snapshots from where the segment begins to where the next one does, ascending.
        None: snapshots and transaction indexes are not shown."""

    def close(self) -> None:
        """Let go of connections; the store may be used again."""


@dataclass(frozen=True)
class ReplicaSegment:
    """One segment of one replica, and what the segments before it add up to."""

    store: ReplicaStore
    topic: str
    partition: int
    base: int
    next_base: int | None  # None: the last segment
    size: int  # bytes of the .log file
    bytes_before: int  # in the .log files of the earlier segments
    digest_before: int | None  # of the batches of the earlier segments; None if their digest indexes do not say
    cleaned_to: int = 0  # below it compaction may have taken offsets out (CL-8)

    @property
    def replica(self) -> int:
        return self.store.replica

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @contextmanager
    def open(self, suffix: str) -> Iterator[SegmentFile]:
        """Raises Vanished if the log is not the one that was listed: one that is sealed keeps its size."""
        with ExitStack() as opened:
            try:
                file = opened.enter_context(self.store.open(self, suffix))
            except FileNotFoundError as error:
                if suffix != LOG_SUFFIX:
                    raise
                raise Vanished(f"the segment is gone: {error}") from None
            moved = file.size < self.size or (file.size > self.size and self.next_base is not None)
            if suffix == LOG_SUFFIX and moved and not self._is_listed_still():
                raise Vanished(f"the log of {self.size} bytes has {file.size}")
            yield file

    def _is_listed_still(self) -> bool:
        """Whether the broker of a sealed segment knows of no change: then its file is damaged, whatever its size."""
        if self.next_base is None:
            return False
        now, _ = self.again()
        return (now.next_base, now.size) == (self.next_base, self.size)

    def epochs(self) -> "EpochCheckpoint":
        return self.store.epochs(self.topic_partition)

    def again(self) -> "tuple[ReplicaSegment, int]":
        """The segment as it is listed now, and the log start offset. Raises Vanished if it is gone."""
        files = self.store.again(self.topic_partition)
        if files.error is not None:
            raise OSError(files.error)
        for segment in files.segments:
            if segment.base == self.base:
                return replace(segment, digest_before=self.digest_before), files.log_start
        raise Vanished(f"{files.place} has no segment {self.base} any more")


@contextmanager
def open_log(segment: ReplicaSegment, window: int = WINDOW) -> Iterator[LogFile]:
    with segment.open(LOG_SUFFIX) as file:
        yield LogFile(file, window)


@dataclass(frozen=True)
class PartitionFiles:
    """One replica of one partition. `error` says why it could not be listed.

    A store that cannot be listed at all is one of `NO_PARTITION`.
    """

    store: ReplicaStore
    partition: TopicPartition
    log_start: int = 0
    high_watermark: int | None = None  # None: the checkpoint does not name this partition
    segments: tuple[ReplicaSegment, ...] = ()
    error: str | None = None
    log_end: int | None = None  # None: nobody says, but the batches do
    leads: bool | None = None  # None: nobody says
    leader_epoch: int | None = None
    cleaned_to: int = 0  # below it compaction may have taken offsets out, in this replica
    topic_id: str | None = None  # None: nobody says

    @property
    def replica(self) -> int:
        return self.store.replica

    @property
    def place(self) -> str:
        return f"{self.store.place}/{self.partition}" if self.partition.topic else self.store.place

    def through(self, store: ReplicaStore) -> "PartitionFiles":
        """The same, to be read from another store."""
        segments = tuple(replace(segment, store=store) for segment in self.segments)
        return replace(self, store=store, segments=segments)

    def epochs(self) -> "EpochCheckpoint":
        return self.store.epochs(self.partition)


@dataclass(frozen=True)
class EpochCheckpoint:
    """The entries of a `leader-epoch-checkpoint`; `fault` is a class of fault, `detail` says more.

    They were cut off below the log start (EP-5), which is noted late where a broker runs or was killed: such a replica
    is `unclean`. From `flushed` on they may lag behind its log: a start adds what the batches say, and cuts the rest.
    """

    entries: tuple[tuple[int, int], ...] = ()
    fault: str | None = None
    detail: str = ""
    path: str = field(default="", compare=False)
    unclean: bool = False
    flushed: int | None = None  # None: they say all

    @property
    def begin(self) -> int:
        """Where the log starts at the earliest, as far as they say so."""
        return self.entries[0][1] if self.unclean and self.entries else 0


def epoch_checkpoint(raw: bytes, path: str) -> EpochCheckpoint:
    """What the content of a leader epoch checkpoint says, checked for order (EP-1)."""
    try:
        entries = checked_epochs(Path(path), parse_entries(Path(path), raw, 2))
    except DamagedCheckpoint as error:
        return EpochCheckpoint((), EPOCH_CACHE_LIE, error.message, path)
    return EpochCheckpoint(tuple(entries), path=path)


class Listed(NamedTuple):
    """A segment as a store lists it."""

    base: int
    size: int  # bytes of the .log file
    digest: int | None  # of all its batches; None if its digest index does not say, and for the last segment


def segments_of(
    store: ReplicaStore, partition: TopicPartition, listed: Sequence[Listed], cleaned_to: int
) -> tuple[ReplicaSegment, ...]:
    """The segments of one partition. Raises OSError unless they are listed by base offset, with sizes that can be."""
    segments = []
    bytes_before = 0
    digest_before: int | None = 0
    for at, (base, size, digest) in enumerate(listed):
        next_base = listed[at + 1].base if at + 1 < len(listed) else None
        if (
            not 0 <= base < (MAX_BASE_OFFSET if next_base is None else next_base)
            or not 0 <= size <= MAX_LONG - bytes_before
        ):
            before = "" if next_base is None else f" before segment {next_base}"
            raise OSError(f"{partition} cannot have a segment {base} of {size} bytes{before}")
        segments.append(
            ReplicaSegment(store, *partition, base, next_base, size, bytes_before, digest_before, cleaned_to)
        )
        bytes_before += size
        digest_before = None if digest_before is None or digest is None else add_digests(digest_before, digest)
    return tuple(segments)
