"""A controller and brokers in this process; readers and writers block, so they run in threads."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from replog.client import Producer
from spark_jobs.records.options import SourceOptions, source_options
from spark_jobs.records.readers import BatchQueryReader, StreamReader
from spark_jobs.records.task import OffsetRange
from tests.replog.server.broker.conftest import InProcessCluster, cluster

__all__ = ["InProcessCluster", "cluster"]


def options(cluster: InProcessCluster, **given: str) -> dict[str, str]:
    """Those of a source, with `_` for the dots of names."""
    servers = ",".join(broker.address for broker in cluster.brokers.values())
    return {"kafka.bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in given.items()}}


def batch_options(cluster: InProcessCluster, **given: str) -> SourceOptions:
    return source_options(options(cluster, **given), streaming=False)


def batch_reader(cluster: InProcessCluster, **given: str) -> BatchQueryReader:
    return BatchQueryReader(batch_options(cluster, **given))


def stream_reader(cluster: InProcessCluster, **given: str) -> StreamReader:
    return StreamReader(source_options(options(cluster, **given), streaming=True))


def read_all(reader: BatchQueryReader | StreamReader, ranges: list[Any]) -> list[dict[str, Any]]:
    """The rows of all tasks, in their order."""
    return [row for task in ranges for batch in reader.read(task) for row in batch.to_pylist()]


async def batch_query(cluster: InProcessCluster, **given: str) -> list[dict[str, Any]]:
    def run() -> list[dict[str, Any]]:
        reader = batch_reader(cluster, **given)
        return read_all(reader, list(reader.partitions()))

    return await asyncio.to_thread(run)


async def planned(cluster: InProcessCluster, **given: str) -> list[OffsetRange]:
    ranges: list[Any] = list(await asyncio.to_thread(batch_reader(cluster, **given).partitions))
    return ranges


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


async def produce(cluster: InProcessCluster, topic: str, counts: Mapping[int, int], start_ms: int = 1000) -> None:
    """So many records to each partition, 10 to a batch, 10 ms apart, each with its partition and number as value."""
    async with Producer([broker.address for broker in cluster.brokers.values()]) as producer:
        for partition, count in counts.items():
            for number in range(count):
                value, timestamp = b"%d:%d" % (partition, number), start_ms + 10 * number
                await producer.send(topic, value, partition=partition, timestamp_ms=timestamp)
                if number % 10 == 9:
                    await producer.flush()


def table(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)
