"""Spark data sources over replicas: `replog_replicas`, `replog_epochs`, `replog_indexes`, `replog_batches`.

    spark.read.format("replog_batches").option("bootstrap.servers", "broker-1:9092").option("topic", "orders").load()
    spark.read.format("replog_batches").option("replica.1", "/data/1").option("replica.2", "/mnt/a,/mnt/b").load()

docs/spark.md describes their options and columns.

An input partition is a segment, or a few small ones; for `replog_replicas` and `replog_epochs` it
is a broker, or one of its directories. Memory is bounded, however large a segment is.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition

from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.faults import UNREADABLE, FileFault
from spark_jobs.replicas.files import ReadCount, ReplicaSegment, ReplicaStore
from spark_jobs.replicas.index_check import Point, index_points
from spark_jobs.replicas.readers import (
    ReplicaPartition,
    ReplicaReader,
    ReplicaSource,
    Row,
    SegmentReader,
    packed,
    place_of,
    signed,
)
from spark_jobs.replicas.segment_check import Batch, check_segment, settled

_PLACE = "replica int, topic string, partition int"
_FAULT = "fault string, file string, detail string"
REPLICAS_SCHEMA = (
    f"{_PLACE}, log_start long, high_watermark long, log_end long, size long, segments int, "
    f"leads boolean, leader_epoch int, cleaned_to long, topic_id string, {_FAULT}, read long"
)
EPOCHS_SCHEMA = f"{_PLACE}, leader_epoch int, start_offset long, {_FAULT}"
INDEXES_SCHEMA = (
    f"{_PLACE}, segment long, position long, base_offset long, last_offset long, leader_epoch int, "
    f"kind string, slot int, value long, {_FAULT}"
)
BATCHES_SCHEMA = (
    f"{_PLACE}, segment long, position long, base_offset long, last_offset long, leader_epoch int, "
    f"crc long, size long, {_FAULT}"
)


class _StoreReader(ReplicaReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [ReplicaPartition([store]) for store in self._stores] or [ReplicaPartition([])]

    def store_of(self, work: ReplicaStore) -> ReplicaStore:
        return work


class SegmentWork(NamedTuple):
    """A segment to read, and the log start of its replica."""

    segment: ReplicaSegment
    log_start: int


class _ItemReader(SegmentReader):
    def partitions(self) -> Sequence[InputPartition]:
        listed = self.listed()
        partitions = packed(SegmentWork(segment, files.log_start) for files in listed for segment in files.segments)
        partitions[0].unlisted += [files for files in listed if files.error is not None]
        return partitions

    def rows(self, work: SegmentWork) -> Iterator[Row]:
        segment = work.segment
        place = place_of(segment).values()
        for item in settled(self._items, segment, work.log_start):
            if isinstance(item, FileFault):
                yield self.fault_row(segment, item)
            else:
                yield (*place, *self._values(item), None, None, None)

    def _items(self, segment: ReplicaSegment, log_start: int) -> Iterator[Any]:
        """Yield the items of a segment that become rows, and its faults."""
        raise NotImplementedError

    def _values(self, item: Any) -> Row:
        """Return the columns between the segment's place and `fault`."""
        raise NotImplementedError


class _ReplicasReader(_StoreReader):
    def rows(self, store: ReplicaStore) -> Iterator[Row]:
        for files in store.partitions(self._topics):
            count = ReadCount()
            yield self.row(**vars(describe(files.counted(count))) | {"read": count.bytes})


class ReplicasSource(ReplicaSource):
    """One row for each partition of each replica: its bounds, its size, and any fault."""

    called = "replog_replicas"
    columns = REPLICAS_SCHEMA
    reads = _ReplicasReader


class _EpochsReader(_StoreReader):
    def rows(self, store: ReplicaStore) -> Iterator[Row]:
        for files in store.partitions(self._topics):
            place = (files.replica, files.partition.topic, files.partition.partition)
            if files.error is not None:
                yield (*place, None, None, UNREADABLE, files.place, files.error)
                continue
            epochs = files.epochs()
            for epoch, start in epochs.entries:
                yield (*place, epoch, start, None, None, None)
            if epochs.fault is not None:
                yield (*place, None, None, epochs.fault, epochs.path, epochs.detail)


class EpochsSource(ReplicaSource):
    """One row for each entry of each leader epoch checkpoint."""

    called = "replog_epochs"
    columns = EPOCHS_SCHEMA
    reads = _EpochsReader


class _IndexesReader(_ItemReader):
    def _items(self, segment: ReplicaSegment, log_start: int) -> Iterator[Point | FileFault]:
        return index_points(segment, log_start, [])

    def _values(self, item: Point) -> Row:
        return item.position, item.offset, item.offset, None, item.kind, item.slot, signed(item.value)


class IndexesSource(ReplicaSource):
    """One row for each index entry, checked against the headers that it points at; see `index_check`.

    `kind` is bytes (offset index: `value` is the bytes of log up to `last_offset`), time (`value` is the timestamp) or
    digest (`value` is the digest up to `last_offset`). `slot` -1 is an end of the segment, not an entry.
    """

    called = "replog_indexes"
    columns = INDEXES_SCHEMA
    reads = _IndexesReader


class _BatchesReader(_ItemReader):
    def __init__(self, source: ReplicaSource) -> None:
        super().__init__(source)
        self._crc = source.flag("crc", "true")

    def _items(self, segment: ReplicaSegment, log_start: int) -> Iterator[Batch | FileFault]:
        return check_segment(segment, log_start, crc=self._crc)

    def _values(self, item: Batch) -> Row:
        return item


class BatchesSource(ReplicaSource):
    """One row for each batch, and each fault of the segments' logs and indexes; see `segment_check`.

    Option `crc` = true (default: recompute every CRC) or false (headers only, no payload is read).
    """

    called = "replog_batches"
    columns = BATCHES_SCHEMA
    own_options = frozenset({"crc"})
    reads = _BatchesReader


def register(spark: SparkSession) -> None:
    """Make the four sources known to `spark`."""
    for source in (ReplicasSource, EpochsSource, IndexesSource, BatchesSource):
        spark.dataSource.register(source)
