"""The sink: all in-sync replicas acknowledge every record before its task commits."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from replog.client import Delivery, Producer
from spark_jobs.kafka_options import refused, reported_first
from spark_jobs.records.cluster import reach, run
from spark_jobs.records.columns import HEADERS
from spark_jobs.records.options import SinkOptions

_TYPES: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS.simpleString(),),
    "partition": ("int",),
}
UNSETTLED = 100_000  # deliveries that a task keeps before it waits for the oldest


@dataclass
class Written(WriterCommitMessage):
    records: int


class _Row(NamedTuple):
    topic: str | None
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None
    partition: int | None


class _Writer:
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Raise INVALID_CONFIG if a column is missing or of the wrong type. Other columns are not written."""
        self._options = options
        there = {field.name: field.dataType.simpleString() for field in schema.fields}  # this has no nullability
        for name, wanted in _TYPES.items():
            if name in there and there[name] not in wanted:
                raise refused(f"column {name!r} is of type {there[name]}; it must be {' or '.join(wanted)}; cast it")
        if "value" not in there:
            raise refused("there is no column 'value'")
        if options.topic is None and "topic" not in there:
            raise refused("no topic is given; set the option topic, or add a column 'topic'")

    @reported_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send all records and wait for all outcomes. Raises the first failure, with partition and cause.

        It waits for Spark's next batch outside of the event loop, which sends records meanwhile."""
        writing = _Writing(self._options)
        run(writing.open())
        try:
            for batch in iterator:
                run(writing.send(batch))
            return Written(run(writing.finish()))
        finally:
            run(writing.producer.close())


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes at least once: a task's next attempt writes again what it wrote before it failed."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes each micro-batch at least once."""


class _Writing:
    producer: Producer

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._count = 0
        self._unsettled: deque[Delivery] = deque()

    async def open(self) -> None:
        options = self._options
        self.producer = Producer(
            options.bootstrap, acks="all", enable_idempotence=True, transport=options.transport, **options.producer
        )

    async def send(self, batch: pa.RecordBatch) -> None:
        if not self._count:
            await reach(self._options)
        unsettled = self._unsettled
        for row in _rows(batch):
            topic = self._options.topic or row.topic
            if topic is None:
                raise refused("a row's topic is null, and the option topic is not set")
            headers = _headers(row)
            unsettled.append(
                await self.producer.send(topic, row.value, row.key, partition=row.partition, headers=headers)
            )
            while len(unsettled) > UNSETTLED or (unsettled and unsettled[0].done()):
                await unsettled.popleft()
        self._count += batch.num_rows

    async def finish(self) -> int:
        """Wait for all deliveries, and return the number of records."""
        await self.producer.flush()
        for delivery in self._unsettled:
            await delivery
        return self._count


def _headers(row: _Row) -> list[tuple[str, bytes | None]]:
    headers = row.headers or []
    if any(header is None or header["key"] is None for header in headers):
        raise refused("a row has a header without a key")
    return [(header["key"], header["value"]) for header in headers]


def _rows(batch: pa.RecordBatch) -> Iterator[_Row]:
    def column(name: str) -> list[Any]:
        if name not in batch.schema.names:
            return [None] * batch.num_rows
        values = batch.column(name)
        if name in ("key", "value"):
            values = values.cast(pa.binary())
        objects: list[Any] = values.to_pylist()
        return objects

    return map(_Row, *(column(name) for name in _Row._fields))
