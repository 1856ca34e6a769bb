"""A replica store that counts the bytes that are read through it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from replog.log.formats.batch import HEADER_SIZE, BatchHeader
from replog.log.formats.segment_file import HEADER_WINDOW, SegmentFile
from replog.topic import TopicPartition
from spark_jobs.replicas.files import EpochCheckpoint, PartitionFiles, ReplicaSegment, ReplicaStore


class CountingStore:
    """A `ReplicaStore` over another one, which counts the bytes that are read from segments' files."""

    def __init__(self, store: ReplicaStore) -> None:
        self._store = store
        self.bytes_read = 0

    @property
    def replica(self) -> int:
        return self._store.replica

    @property
    def place(self) -> str:
        return self._store.place

    def for_segments(self) -> "CountingStore":
        return self

    def partitions(self, topics: frozenset[str]) -> list[PartitionFiles]:
        return [files.through(self) for files in self._store.partitions(topics)]

    def epochs(self, partition: TopicPartition) -> EpochCheckpoint:
        return self._store.epochs(partition)

    def again(self, partition: TopicPartition) -> PartitionFiles:
        return self._store.again(partition).through(self)

    def identity(self, partition: TopicPartition) -> str:
        return self._store.identity(partition)

    @contextmanager
    def open(self, segment: ReplicaSegment, suffix: str) -> Iterator[SegmentFile]:
        with self._store.open(segment, suffix) as file:
            yield _CountedFile(self, file)

    def snapshots(self, segment: ReplicaSegment) -> list[int] | None:
        return self._store.snapshots(segment)

    def close(self) -> None:
        self._store.close()


class _CountedFile:
    def __init__(self, store: CountingStore, file: SegmentFile) -> None:
        self._store = store
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def read(self, position: int, size: int) -> bytes:
        data = self._file.read(position, size)
        self._store.bytes_read += len(data)
        return data

    def read_into(self, position: int, buffer: memoryview) -> int:
        count = self._file.read_into(position, buffer)
        self._store.bytes_read += count
        return count

    def headers(self, position: int, count: int) -> list[tuple[int, BatchHeader]]:
        batches = self._file.headers(position, count)
        # Reads of small batches' headers take in all of their bytes.
        self._store.bytes_read += sum(
            header.size if header.size <= HEADER_WINDOW else HEADER_SIZE for _, header in batches
        )
        return batches

    def headers_at(self, positions: Sequence[int]) -> list[tuple[int, BatchHeader]]:
        self._store.bytes_read += HEADER_SIZE * len(positions)
        return self._file.headers_at(positions)

    def will_read(self, positions: Sequence[int]) -> None:
        self._file.will_read(positions)
