"""Batch queries read the records that are there now, between two bounds."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from replog.errors import ErrorCode
from replog.topic import TopicPartition
from spark_jobs.records import cluster
from spark_jobs.records.loop import run
from spark_jobs.records.losses import report_data_loss
from spark_jobs.records.options import SourceOptions
from spark_jobs.records.planning import OffsetRange, tasks
from spark_jobs.records.task import read_range
from spark_jobs.reported import reported_first


class BatchQueryReader(DataSourceReader):
    """Bounds are looked up once, on the driver, when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @reported_first()
    def partitions(self) -> Sequence[InputPartition]:
        wanted = run(self._ranges())
        return tasks(wanted, self._options.min_partitions, self._options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, OffsetRange):  # Spark makes one of its own when there is nothing to read
            return iter(())
        return read_range(self._options, partition)

    async def _ranges(self) -> list[OffsetRange]:
        options = self._options
        async with cluster.admin(options) as client:
            assigned = await cluster.assigned(client, options, all_of_it=True)
            there = await cluster.ranges(client, options, assigned)
            starts = await cluster.resolve(client, options, options.starting, there, starting=True)
            ends = await cluster.resolve(client, options, options.ending, there, starting=False)
        return [
            OffsetRange(
                partition.topic,
                partition.partition,
                assigned.topic_ids[partition.topic],
                *self._within(partition, starts[partition], ends[partition], there[partition]),
            )
            for partition in assigned.partitions
        ]

    def _within(
        self, partition: TopicPartition, start: int, end: int, there: cluster.PartitionRange
    ) -> tuple[int, int]:
        if start > end and there.start <= end < there.end:
            raise ErrorCode.INVALID_CONFIG.error(
                f"{partition}: the query starts at offset {start}, after its end {end}"
            )
        if min(start, end) < there.start or max(start, end) > there.end:
            report_data_loss(
                self._options.fail_on_data_loss,
                f"{partition}: records from offset {start} to before {end} are asked for, and those from {there.start} "
                f"to before {there.end} are there",
            )
        return max(start, there.start), min(end, there.end)
