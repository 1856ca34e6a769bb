"""Partitions, segments and their files, and the store that they are read through.

A store is pickled into Spark's tasks: it opens files or connections at the first call, and `close` closes them.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Protocol

from replog.config.properties import MAX_LONG
from replog.log.epochs import checked_epochs
from replog.log.errors import CorruptRecord
from replog.log.files.names import INDEX_SUFFIX, LOG_SUFFIX
from replog.log.formats.batch import HEADER_SIZE, MAX_BASE_OFFSET, BatchHeader, add_digests
from replog.log.formats.checkpoint import DamagedCheckpoint, parse_entries
from replog.log.formats.segment_file import HEADER_WINDOW, SegmentFile, Vanished
from replog.log.formats.walk import WINDOW, LogFile
from replog.log.indexes.entries import LAYOUTS, used_slots
from replog.log_tools.checker.indexes import open_index
from replog.topic import TopicPartition
from spark_jobs.replicas.faults import EPOCH_CACHE_LIE

NO_PARTITION = TopicPartition("", -1)
FIRST_ENTRIES = 4096  # bytes of the first read of an offset index from its end; each further one is twice as long
MOST_ENTRIES = 1 << 20  # bytes of the longest read


class ReplicaStore(Protocol):
    """The source of one broker's replicas. Errors are `OSError`s."""

    @property
    def replica(self) -> int:
        """The broker's id."""

    @property
    def place(self) -> str:
        """A log directory, or a broker's address, as text for people."""

    def for_segments(self) -> "ReplicaStore":
        """Return a small store that can read segments; it goes with every task."""

    def partitions(self, topics: frozenset[str]) -> "list[PartitionFiles]":
        """List every partition, only of `topics` unless empty. One that cannot be read has an `error`."""

    def epochs(self, partition: TopicPartition) -> "EpochCheckpoint":
        """Return the leader epoch checkpoint as it is now, checked for order (EP-1)."""

    def again(self, partition: TopicPartition) -> "PartitionFiles":
        """List a partition's segments as they are now, by their sizes. Raises Vanished if it is gone."""

    def identity(self, partition: TopicPartition) -> str:
        """Return an identity that the directory's replacement does not have; empty if it is not known."""

    def open(self, segment: "ReplicaSegment", suffix: str) -> AbstractContextManager[SegmentFile]:
        """Open one of the segment's files, by its suffix. Raises FileNotFoundError if it has none."""

    def snapshots(self, segment: "ReplicaSegment") -> list[int] | None:
        """Return the offsets of the producer snapshots from the segment's base to the next one's, ascending. None:
        snapshots and transaction indexes are not shown."""

    def close(self) -> None:
        """Close connections; the store may be used again."""


class ReadCount:
    """Counts the bytes that are read from segments' files."""

    bytes = 0


class _CountedFile:
    def __init__(self, file: SegmentFile, count: ReadCount) -> None:
        self._file, self._count = file, count

    @property
    def size(self) -> int:
        return self._file.size

    def read(self, position: int, size: int) -> bytes:
        data = self._file.read(position, size)
        self._count.bytes += len(data)
        return data

    def read_into(self, position: int, buffer: memoryview) -> int:
        count = self._file.read_into(position, buffer)
        self._count.bytes += count
        return count

    def headers(self, position: int, count: int) -> list[tuple[int, BatchHeader]]:
        batches = self._file.headers(position, count)
        # Reads of small batches' headers take in all of their bytes.
        sizes = (header.size if header.size <= HEADER_WINDOW else HEADER_SIZE for _, header in batches)
        self._count.bytes += sum(sizes)
        return batches

    def headers_at(self, positions: Sequence[int]) -> list[tuple[int, BatchHeader]]:
        self._count.bytes += HEADER_SIZE * len(positions)
        return self._file.headers_at(positions)

    def will_read(self, positions: Sequence[int]) -> None:
        self._file.will_read(positions)


@dataclass(frozen=True)
class ReplicaSegment:
    """One segment of one replica, with the sums over the segments before it."""

    store: ReplicaStore
    topic: str
    partition: int
    base: int
    next_base: int | None  # None: the last segment
    size: int  # bytes of the .log file
    bytes_before: int  # bytes in the .log files of earlier segments
    digest_before: int | None  # the digest of the batches of earlier segments; None: not known
    cleaned_to: int = 0  # compaction may have taken out lower offsets (CL-8)
    count: ReadCount | None = field(default=None, compare=False, repr=False)  # None: nobody asks

    @property
    def replica(self) -> int:
        return self.store.replica

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @contextmanager
    def open(self, suffix: str) -> Iterator[SegmentFile]:
        """Open a file. Raises Vanished if the log has another size than was listed: a sealed one must keep it."""
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
            yield file if self.count is None else _CountedFile(file, self.count)

    def _is_listed_still(self) -> bool:
        """Return True if a sealed segment is listed without a change: then a wrong size of its file is damage."""
        if self.next_base is None:
            return False
        files = self.store.again(self.topic_partition)
        if files.error is not None:
            raise OSError(files.error)
        listed = {(segment.base, segment.next_base, segment.size) for segment in files.segments}
        return (self.base, self.next_base, self.size) in listed

    def epochs(self) -> "EpochCheckpoint":
        return self.store.epochs(self.topic_partition)


@contextmanager
def open_log(segment: ReplicaSegment, window: int = WINDOW) -> Iterator[LogFile]:
    with segment.open(LOG_SUFFIX) as file:
        yield LogFile(file, window)


def last_indexed(segment: ReplicaSegment, log: LogFile, below: int = MAX_LONG) -> int:
    """Return the position of the last true entry of the offset index below an offset; 0 if there is none.

    The entry may be for an append of several batches, and have the first one's position (SG-2). It reads the index from
    its end, as far as needed, without the slots that are not used (IX-2).
    """
    layout = LAYOUTS[INDEX_SUFFIX]
    try:
        with open_index(segment, INDEX_SUFFIX) as file:
            slots = range(file.size // layout.size)
            if below < MAX_LONG:  # otherwise a look-up in the middle would read all that is behind it
                slots = slots[: bisect_left(slots, below - segment.base, key=partial(_relative_offset, file, layout))]
            end, size = len(slots) * layout.size, FIRST_ENTRIES
            while end > 0:
                start = max(0, end - size)
                piece = file.read(start, end - start)
                used = layout.iter_unpack(piece[: used_slots(piece, layout) * layout.size])
                for relative, position in reversed(list(used)):
                    offset = segment.base + relative
                    if segment.base <= offset < below and position > 0 and _is_true(segment, log, offset, position):
                        return int(position)
                end, size = start, min(2 * size, MOST_ENTRIES)
    except FileNotFoundError:
        pass
    return 0


def _relative_offset(file: SegmentFile, layout: Struct, slot: int) -> int:
    entry = file.read(slot * layout.size, layout.size)
    return int(layout.unpack(entry)[0]) if len(entry) == layout.size else MAX_LONG


def _is_true(segment: ReplicaSegment, log: LogFile, offset: int, position: int) -> bool:
    try:
        header = log.header(position)
    except CorruptRecord:
        return False
    return segment.base <= header.base_offset and header.last_offset <= offset


@dataclass(frozen=True)
class PartitionFiles:
    """One replica of one partition. `error` says why it could not be listed.

    A store that cannot be listed at all has one, of `NO_PARTITION`.
    """

    store: ReplicaStore
    partition: TopicPartition
    log_start: int = 0
    high_watermark: int | None = None  # None: the checkpoint does not name this partition
    segments: tuple[ReplicaSegment, ...] = ()
    error: str | None = None
    log_end: int | None = None  # None: only the batches show it
    leads: bool | None = None  # None: not known
    leader_epoch: int | None = None
    cleaned_to: int = 0  # compaction may have taken out lower offsets in this replica
    topic_id: str | None = None  # None: not known

    @property
    def replica(self) -> int:
        return self.store.replica

    @property
    def place(self) -> str:
        return f"{self.store.place}/{self.partition}" if self.partition.topic else self.store.place

    def through(self, store: ReplicaStore) -> "PartitionFiles":
        """Return the same partition, to be read through another store."""
        segments = tuple(replace(segment, store=store) for segment in self.segments)
        return replace(self, store=store, segments=segments)

    def counted(self, count: ReadCount) -> "PartitionFiles":
        """Return the same partition; `count` counts what is read of its segments."""
        return replace(self, segments=tuple(replace(segment, count=count) for segment in self.segments))

    def epochs(self) -> "EpochCheckpoint":
        return self.store.epochs(self.partition)


@dataclass(frozen=True)
class EpochCheckpoint:
    """The entries of a `leader-epoch-checkpoint`; `fault` is a class of fault, `detail` says more.

    `unclean`: a broker runs or was killed. Then entries may be cut to a log start (EP-5) that its checkpoint does not
    have yet; and from `flushed` on they may lag behind the log, until a start adds those of the batches.
    """

    entries: tuple[tuple[int, int], ...] = ()
    fault: str | None = None
    detail: str = ""
    path: str = field(default="", compare=False)
    unclean: bool = False
    flushed: int | None = None  # None: entries do not lag

    @property
    def begin(self) -> int:
        """The lowest log start that the entries allow."""
        return self.entries[0][1] if self.unclean and self.entries else 0


def epoch_checkpoint(raw: bytes, path: str) -> EpochCheckpoint:
    """Parse the content of a leader epoch checkpoint, checked for order (EP-1)."""
    try:
        entries = checked_epochs(Path(path), parse_entries(Path(path), raw, 2))
    except DamagedCheckpoint as error:
        return EpochCheckpoint((), EPOCH_CACHE_LIE, error.message, path)
    return EpochCheckpoint(tuple(entries), path=path)


class Listed(NamedTuple):
    """A segment as a store lists it."""

    base: int
    size: int  # bytes of the .log file
    digest: int | None  # the digest of all its batches; None: not known, as for the last segment


def segments_of(
    store: ReplicaStore, partition: TopicPartition, listed: Sequence[Listed], cleaned_to: int
) -> tuple[ReplicaSegment, ...]:
    """Return the segments of one partition. Raises OSError if base offsets do not rise, or sizes are impossible."""
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
