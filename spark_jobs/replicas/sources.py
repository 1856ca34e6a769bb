"""Spark data sources over replicas: `replog_replicas`, `replog_epochs`, `replog_indexes`, `replog_batches`.

    spark.read.format("replog_batches").option("bootstrap.servers", "broker-1:9092").option("topic", "orders").load()
    spark.read.format("replog_batches").option("replica.1", "/data/1").option("replica.2", "/mnt/a,/mnt/b").load()

Options of all:

- `bootstrap.servers` = addresses of brokers of a running cluster, separated by commas: every replica that its metadata
  names is read from the broker that has it (gRPC service Inspection).
- `replica.<id>`, instead = the log.dirs of broker `<id>`, separated by commas: replog's or Apache Kafka's (3.x, 4.x),
  running or not. Every Spark worker must see them under these paths, and the driver too.
- `topic` or `topics` = names, separated by commas. All, unless given.
- `replicas` = broker ids, separated by commas: read these only. All, unless given.

Options are refused, with a ValueError that names the option, if they are not known or make no sense.

What cannot be read, or is wrong by itself, is a row with `fault` set: a class (`UNREADABLE`, `BIT_ROT`, `GAP`,
`INDEX_LIE`, `EPOCH_CACHE_LIE`), the `file` and a `detail`. A fault of class `VANISHED` is none: retention, truncation
or a cleaning took away what was being read, and these offsets must be listed and read again. Rows come as Arrow
batches. An input partition is a part of a segment, a segment, or a few small ones; for `replog_replicas` and
`replog_epochs` it is a broker, or one of its directories. Its memory is bounded, however large a segment is.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from replog.config import MAX_INT
from spark_jobs.replicas.counting import CountingStore
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import UNREADABLE, PartitionFiles, ReplicaStore, Segment
from spark_jobs.replicas.index_check import Point, index_points
from spark_jobs.replicas.moving import settled
from spark_jobs.replicas.parts import WHOLE, Part, check_part, parts_of
from spark_jobs.replicas.scan import Fault
from spark_jobs.replicas.segment_check import Batch

ROWS_PER_BATCH = 8192
PACKED_BYTES = 32 << 20  # of small segments in one input partition
MAX_SEGMENTS = 64  # in one input partition
_COMMON = frozenset({"bootstrap.servers", "topic", "topics", "replicas"})  # options of all sources

_PLACE = "replica int, topic string, partition int"
_FAULT = "fault string, file string, detail string"
REPLICAS_SCHEMA = (
    f"{_PLACE}, log_start long, high_watermark long, log_end long, size long, segments int, "
    f"leads boolean, leader_epoch int, cleaned_to long, {_FAULT}, read long"
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
_ARROW_TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}


class Work(NamedTuple):
    """A part of a segment to read, and the log start of its replica."""

    segment: Segment
    log_start: int
    part: Part


@dataclass
class SegmentPartition(InputPartition):
    """What a task reads: a part of a segment, or several small segments; or what could not be listed."""

    work: list[Work]
    unlisted: list[PartitionFiles] = field(default_factory=list)


@dataclass
class StorePartition(InputPartition):
    """One broker's replicas, or those in one of its directories."""

    store: ReplicaStore | None  # None: there is none


class ReplicaSource(DataSource):
    """What the sources share: their options. What is not known is refused, lest a misspelt option does nothing."""

    columns: str
    own_options: frozenset[str] = frozenset()  # beside those of all

    def schema(self) -> str:
        return self.columns

    def stores(self) -> list[ReplicaStore]:
        """Where the options say that replicas are."""
        directories = {key: self._names(key) for key in self.options if key.startswith("replica.")}
        for key in self.options:
            if key not in directories and key not in _COMMON | self.own_options:
                known = ", ".join(sorted({"replica.<id>", *_COMMON, *self.own_options}))
                raise ValueError(f"option {key}: {self.name()} does not know it, only {known}")
        wanted = frozenset(self._id("replicas", name) for name in self._names("replicas"))
        bootstrap = self.options.get("bootstrap.servers")
        if (bootstrap is None) == (not directories):
            raise ValueError(f"{self.name()}: give either bootstrap.servers or replica.<id> = a broker's log directory")
        if bootstrap is not None:
            from spark_jobs.replicas.brokers import broker_stores  # a third of all that a worker would import

            return list(broker_stores(bootstrap, self.topics(), wanted))
        found: list[ReplicaStore] = []
        given: dict[str, str] = {}
        for key, places in sorted(directories.items()):
            replica = self._id(key, key.removeprefix("replica."))
            if not places:
                raise ValueError(f"option {key} is empty: name a broker's log directory")
            for place in places:
                if (other := given.setdefault(os.path.realpath(place), key)) != key:
                    raise ValueError(
                        f"options {other} and {key} are one directory, {place}: it would agree with itself"
                    )
            if not wanted or replica in wanted:
                found += [DirectoryStore(replica, Path(place)) for place in dict.fromkeys(places)]
        return found

    def topics(self) -> frozenset[str]:
        return frozenset([*self._names("topics"), *self._names("topic")])

    def _names(self, option: str) -> list[str]:
        return [name for name in map(str.strip, self.options.get(option, "").split(",")) if name]

    def _id(self, option: str, name: str) -> int:
        if not (name.isascii() and name.isdigit() and len(name) <= 10) or int(name) > MAX_INT:
            raise ValueError(f"option {option}: {name!r} is not a replica id")
        return int(name)

    def flag(self, option: str, default: str) -> bool:
        value = self.options.get(option, default).lower()
        if value not in ("true", "false"):
            raise ValueError(f"option {option}: {value!r} is neither true nor false")
        return value == "true"


class ReplicaReader(DataSourceReader):
    """What all readers share: where replicas are, and rows as Arrow batches."""

    def __init__(self, source: ReplicaSource) -> None:
        self._stores = source.stores()
        self._topics = source.topics()
        self._columns = source.columns

    def _listed(self) -> list[PartitionFiles]:
        """Every partition of every store, to be read by segment."""
        listed = []
        for store in self._stores:
            light = store.for_segments()
            try:
                for files in store.partitions(self._topics):
                    segments = tuple(replace(segment, store=light) for segment in files.segments)
                    listed.append(replace(files, store=light, segments=segments))
            finally:
                store.close()
        return listed

    def _batches(self, rows: Iterable[Sequence[Any]]) -> Iterator[pa.RecordBatch]:
        """Rows as Arrow batches of bounded length."""
        fields = [column.split() for column in self._columns.split(", ")]
        schema = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in fields])
        held: list[Sequence[Any]] = []
        for row in rows:
            held.append(row)
            if len(held) == ROWS_PER_BATCH:
                yield _record_batch(held, schema)
                held = []
        if held:
            yield _record_batch(held, schema)


def _record_batch(rows: list[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema)


class _ByReplica(ReplicaReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [StorePartition(store) for store in self._stores] or [StorePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StorePartition)
        if partition.store is None:
            return
        try:
            yield from self._batches(self._rows(partition.store))
        finally:
            partition.store.close()

    def _rows(self, store: ReplicaStore) -> Iterator[Sequence[Any]]:
        raise NotImplementedError


class _BySegment(ReplicaReader):
    def partitions(self) -> Sequence[InputPartition]:
        """One for each part, but small ones share: a task costs more than reading a few MiB."""
        listed = self._listed()
        # Always one at least: Spark would make up one of its own.
        packed = [SegmentPartition([], [files for files in listed if files.error is not None])]
        room = PACKED_BYTES
        for files in listed:
            for work in (Work(segment, files.log_start, p) for segment in files.segments for p in self._parts(segment)):
                size = min(work.segment.size, work.part.size)
                if size > room or len(packed[-1].work) == MAX_SEGMENTS:
                    packed.append(SegmentPartition([]))
                    room = PACKED_BYTES
                packed[-1].work.append(work)
                room -= size
        return packed

    def _parts(self, segment: Segment) -> list[Part]:
        """The parts that a segment is read in."""
        raise NotImplementedError

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SegmentPartition)
        unlisted = map(self._unlisted, partition.unlisted)
        try:
            yield from self._batches(chain(unlisted, (row for work in partition.work for row in self._rows(work))))
        finally:
            for work in partition.work:
                work.segment.store.close()

    def _unlisted(self, files: PartitionFiles) -> tuple[Any, ...]:
        nothing = (None,) * (len(self._columns.split(", ")) - 6)
        return (files.replica, *files.partition, *nothing, UNREADABLE, files.place, files.error)

    def _rows(self, work: Work) -> Iterator[tuple[Any, ...]]:
        segment = work.segment
        place = (segment.replica, segment.topic, segment.partition, segment.base)
        nothing = (None,) * (len(self._columns.split(", ")) - len(place) - len(Fault._fields))
        for item in settled(lambda start: self._items(work._replace(log_start=start)), segment, work.log_start):
            if isinstance(item, Fault):
                found = (item.position, item.first, item.last, item.epoch)
                yield (*place, *found, *nothing, item.fault, item.file, item.detail)
            else:
                yield (*place, *self._row(item), None, None, None)

    def _items(self, work: Work) -> Iterator[Any]:
        """What there is to tell of it, and its faults."""
        raise NotImplementedError

    def _row(self, item: Any) -> tuple[Any, ...]:
        """The columns between the segment's place and `fault`."""
        raise NotImplementedError


class ReplicasSource(ReplicaSource):
    """One row for each partition of each replica: its bounds, its size, and whether it can be read."""

    columns = REPLICAS_SCHEMA

    @classmethod
    def name(cls) -> str:
        return "replog_replicas"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ReplicasReader(self)


class _ReplicasReader(_ByReplica):
    def _rows(self, store: ReplicaStore) -> Iterator[Sequence[Any]]:
        counting = CountingStore(store)
        counted = 0
        for files in counting.partitions(self._topics):
            described = describe(files)
            yield described._replace(read=counting.bytes_read - counted)
            counted = counting.bytes_read


class EpochsSource(ReplicaSource):
    """One row for each entry of each leader epoch checkpoint."""

    columns = EPOCHS_SCHEMA

    @classmethod
    def name(cls) -> str:
        return "replog_epochs"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _EpochsReader(self)


class _EpochsReader(_ByReplica):
    def _rows(self, store: ReplicaStore) -> Iterator[Sequence[Any]]:
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


class IndexesSource(ReplicaSource):
    """One row for each index entry, checked against the headers that it points at; see `index_check`.

    `kind` is bytes (offset index: `value` is the bytes of log up to `last_offset`), time (`value` is the timestamp) or
    digest (`value` is the digest up to `last_offset`). `slot` -1: no entry, but an end of the segment.
    """

    columns = INDEXES_SCHEMA

    @classmethod
    def name(cls) -> str:
        return "replog_indexes"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _IndexesReader(self)


class _IndexesReader(_BySegment):
    def _parts(self, segment: Segment) -> list[Part]:
        return [WHOLE]  # headers beside entries are all that is read

    def _items(self, work: Work) -> Iterator[Point | Fault]:
        return index_points(work.segment, work.log_start, [])

    def _row(self, item: Point) -> tuple[Any, ...]:
        return item.position, item.offset, item.offset, None, item.kind, item.slot, _signed(item.value)


class BatchesSource(ReplicaSource):
    """One row for each batch, and each fault of the segments' logs and indexes; see `segment_check`.

    Option `crc` = true (default: recompute every CRC) or false (headers only, no payload is read).
    """

    columns = BATCHES_SCHEMA
    own_options = frozenset({"crc"})

    @classmethod
    def name(cls) -> str:
        return "replog_batches"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchesReader(self)


class _BatchesReader(_BySegment):
    def __init__(self, source: ReplicaSource) -> None:
        super().__init__(source)
        self._crc = source.flag("crc", "true")

    def _parts(self, segment: Segment) -> list[Part]:
        return parts_of(segment) if self._crc else [WHOLE]

    def _items(self, work: Work) -> Iterator[Batch | Fault]:
        return check_part(*work, crc=self._crc)

    def _row(self, item: Batch) -> tuple[Any, ...]:
        return item


def _signed(value: int | None) -> int | None:
    """A 64-bit digest as Spark's signed long; differences stay right modulo 2^64."""
    return value if value is None or value < 2**63 else value - 2**64


def register(spark: SparkSession) -> None:
    """Make the four sources known to `spark`."""
    for source in (ReplicasSource, EpochsSource, IndexesSource, BatchesSource):
        spark.dataSource.register(source)
