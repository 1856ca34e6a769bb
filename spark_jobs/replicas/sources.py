"""Spark data sources over replicas: `replog_replicas`, `replog_epochs`, `replog_batches`; and what all sources share.

    spark.read.format("replog_batches").option("bootstrap.servers", "broker-1:9092").option("topic", "orders").load()
    spark.read.format("replog_batches").option("replica.1", "/data/1").option("replica.2", "/mnt/a,/mnt/b").load()

docs/spark.md describes their options and columns.

An input partition is a segment, or a few small ones; for `replog_replicas` and `replog_epochs` it
is a broker, or one of its directories. Memory is bounded, however large a segment is.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from replog.config.properties import MAX_INT, number_in
from spark_jobs.kafka_options import SECURITY, SERVERS, in_full, refuse_unknown, refused, reported_first, security_of
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import UNREADABLE, FileFault
from spark_jobs.replicas.files import PartitionFiles, ReadCount, ReplicaSegment, ReplicaStore
from spark_jobs.replicas.segment_check import check_segment, until_unread

ROWS_PER_BATCH = 8192
PACKED_BYTES = 32 << 20  # bytes of small segments in one input partition
MAX_SEGMENTS = 64  # segments in one input partition
_COMMON = (SERVERS, *SECURITY, "topic", "topics", "replicas")  # options of all sources
_ARROW_TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}
_PLACE = "replica int, topic string, partition int"
_FAULT = "fault string, file string, detail string"

Row = Sequence[Any]


class ReplicaSource(DataSource):
    """The base of all sources, with their options. An unknown or senseless one is refused by its name."""

    called: str  # the name for `format(…)`
    columns: str
    own_options: frozenset[str] = frozenset()  # the source's own, besides those of all sources
    reads: "type[ReplicaReader]"

    @classmethod
    def name(cls) -> str:
        return cls.called

    def schema(self) -> str:
        return self.columns

    @reported_first()
    def reader(self, schema: StructType) -> DataSourceReader:
        return self.reads(self)

    def stores(self) -> list[ReplicaStore]:
        """Return the stores that the options name. Raises INVALID_CONFIG; OSError if no broker answers, or a topic is
        not known."""
        given = in_full(self.options, (SERVERS, *SECURITY))
        directories = sorted(name for name in given if name.startswith("replica."))
        refuse_unknown(self.name(), given.keys() - directories, (*_COMMON, *self.own_options, "replica.<id>"))
        bootstrap = given.get(SERVERS)
        if (bootstrap is None) == (not directories):
            raise refused(f"{self.name()}: give either {SERVERS} or replica.<id> = a broker's log directory")
        wanted = frozenset(_replica_id("replicas", name) for name in self._names("replicas"))
        if bootstrap is not None:
            from spark_jobs.replicas.brokers import broker_stores  # it would be a third of a worker's imports

            return list(broker_stores(bootstrap, self.topics(), wanted, security_of(given)))
        stores = self._directory_stores(directories)
        return [store for store in stores if not wanted or store.replica in wanted]

    def _directory_stores(self, keys: Iterable[str]) -> list[ReplicaStore]:
        stores: list[ReplicaStore] = []
        given: dict[str, str] = {}
        for key in keys:
            replica = _replica_id(key, key.removeprefix("replica."))
            places = {os.path.realpath(place): place for place in self._names(key)}
            if not places:
                raise refused(f"option {key} is empty: name a broker's log directory")
            for real, place in places.items():
                if (other := given.setdefault(real, key)) != key:
                    raise refused(f"options {other} and {key} are one directory, {place}: it would agree with itself")
            stores += [DirectoryStore(replica, Path(place)) for place in places.values()]
        return stores

    def topics(self) -> frozenset[str]:
        return frozenset([*self._names("topics"), *self._names("topic")])

    def _names(self, option: str) -> list[str]:
        return [name for name in map(str.strip, self.options.get(option, "").split(",")) if name]

    def flag(self, option: str, default: str) -> bool:
        value = self.options.get(option, default).lower()
        if value not in ("true", "false"):
            raise refused(f"option {option}: {value!r} is neither true nor false")
        return value == "true"


def _replica_id(option: str, name: str) -> int:
    if (number := number_in(name, MAX_INT)) is None:
        raise refused(f"option {option}: {name!r} is not a replica id")
    return number


@dataclass
class ReplicaPartition(InputPartition):
    """The work of a task, and partitions that could not be listed."""

    work: list[Any]
    unlisted: list[PartitionFiles] = field(default_factory=list)


class ReplicaReader(DataSourceReader):
    """The base of all readers: the stores, and rows as Arrow batches."""

    def __init__(self, source: ReplicaSource) -> None:
        self._stores = source.stores()
        self._topics = source.topics()
        self._columns = dict(column.split() for column in source.columns.split(", "))  # names to types

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReplicaPartition)
        unlisted = map(self._unlisted, partition.unlisted)
        try:
            yield from self.batches(chain(unlisted, (row for work in partition.work for row in self.rows(work))))
        finally:
            for work in partition.work:
                self.store_of(work).close()

    def rows(self, work: Any) -> Iterator[Row]:
        """Yield the rows of a piece of work."""
        raise NotImplementedError

    def store_of(self, work: Any) -> ReplicaStore:
        """Return the store that the work is read from."""
        raise NotImplementedError

    def row(self, **values: Any) -> Row:
        """Return a row with these columns set."""
        return tuple(map(values.get, self._columns))

    def batches(self, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
        """Yield rows as Arrow batches of bounded length."""
        schema = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in self._columns.items()])
        held: list[Row] = []
        for row in rows:
            held.append(row)
            if len(held) == ROWS_PER_BATCH:
                yield _record_batch(held, schema)
                held = []
        if held:
            yield _record_batch(held, schema)

    def _unlisted(self, files: PartitionFiles) -> Row:
        replica, (topic, partition) = files.replica, files.partition
        fault = {"fault": UNREADABLE, "file": files.place, "detail": files.error}
        return self.row(replica=replica, topic=topic, partition=partition, **fault)


def _record_batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema)


def packed(work: Iterable[Any]) -> list[ReplicaPartition]:
    """Return input partitions. Small work shares them: a task costs more than reading a few MiB.

    There is at least one, otherwise Spark would make one of its own.
    """
    partitions = [ReplicaPartition([])]
    room = PACKED_BYTES
    for item in work:
        held = partitions[-1].work
        if held and (item.segment.size > room or len(held) == MAX_SEGMENTS):
            partitions.append(ReplicaPartition([]))
            room = PACKED_BYTES
        partitions[-1].work.append(item)
        room -= item.segment.size
    return partitions


class SegmentReader(ReplicaReader):
    """A reader whose rows come of segments."""

    def listed(self) -> list[PartitionFiles]:
        """List every partition of every store."""
        partitions = []
        for store in self._stores:
            light = store.for_segments()
            try:
                partitions += [files.through(light) for files in store.partitions(self._topics)]
            finally:
                store.close()
        return partitions

    def store_of(self, work: Any) -> ReplicaStore:
        store: ReplicaStore = work.segment.store
        return store

    def fault_row(self, segment: ReplicaSegment, fault: FileFault) -> Row:
        kind, file, position, first, last, epoch, detail = fault
        place = {"position": position, "base_offset": first, "last_offset": last, "leader_epoch": epoch}
        return self.row(**place_of(segment), **place, fault=kind, file=file, detail=detail)


def place_of(segment: ReplicaSegment) -> dict[str, Any]:
    """Return the first columns of a segment's rows."""
    replica, topic, partition = segment.replica, segment.topic, segment.partition
    return {"replica": replica, "topic": topic, "partition": partition, "segment": segment.base}


def signed(value: int | None) -> int | None:
    """Return a 64-bit digest as Spark's signed long; differences stay right modulo 2^64."""
    return value if value is None or value < 2**63 else value - 2**64


class _StoreReader(ReplicaReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [ReplicaPartition([store]) for store in self._stores] or [ReplicaPartition([])]

    def store_of(self, work: ReplicaStore) -> ReplicaStore:
        return work


class _ReplicasReader(_StoreReader):
    def rows(self, store: ReplicaStore) -> Iterator[Row]:
        for files in store.partitions(self._topics):
            count = ReadCount()
            yield self.row(**vars(describe(files.counted(count))) | {"read": count.bytes})


class ReplicasSource(ReplicaSource):
    """One row for each partition of each replica: its bounds, its size, and any fault."""

    called = "replog_replicas"
    columns = (
        f"{_PLACE}, log_start long, high_watermark long, log_end long, size long, segments int, "
        f"leads boolean, leader_epoch int, cleaned_to long, topic_id string, {_FAULT}, read long"
    )
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
    columns = f"{_PLACE}, leader_epoch int, start_offset long, {_FAULT}"
    reads = _EpochsReader


class SegmentWork(NamedTuple):
    """A segment to read, and the log start of its replica."""

    segment: ReplicaSegment
    log_start: int


class _BatchesReader(SegmentReader):
    def __init__(self, source: ReplicaSource) -> None:
        super().__init__(source)
        self._crc = source.flag("crc", "true")

    def partitions(self) -> Sequence[InputPartition]:
        listed = self.listed()
        partitions = packed(SegmentWork(segment, files.log_start) for files in listed for segment in files.segments)
        partitions[0].unlisted += [files for files in listed if files.error is not None]
        return partitions

    def rows(self, work: SegmentWork) -> Iterator[Row]:
        segment = work.segment
        place = place_of(segment).values()
        for item in until_unread(segment, check_segment(segment, work.log_start, crc=self._crc)):
            if isinstance(item, FileFault):
                yield self.fault_row(segment, item)
            else:
                yield (*place, *item, None, None, None)


class BatchesSource(ReplicaSource):
    """One row for each batch, and each fault of the segments' logs and indexes; see `segment_check`.

    Option `crc` = true (default: recompute every CRC) or false (headers only, no payload is read).
    """

    called = "replog_batches"
    columns = (
        f"{_PLACE}, segment long, position long, base_offset long, last_offset long, leader_epoch int, "
        f"crc long, size long, {_FAULT}"
    )
    own_options = frozenset({"crc"})
    reads = _BatchesReader


def register(spark: SparkSession) -> None:
    """Make the sources known to `spark`."""
    for source in (ReplicasSource, EpochsSource, BatchesSource):
        spark.dataSource.register(source)
