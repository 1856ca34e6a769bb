"""Readers: of batch queries, the records that are there now, between two bounds; of streaming queries, micro-batches of
offsets, which may be limited, and go on from the checkpoint."""

import logging
import math
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from replog.client import Admin
from replog.client.offsets import EARLIEST, LATEST
from replog.errors import ErrorCode
from replog.topic import TopicPartition
from spark_jobs.kafka_options import reported_first
from spark_jobs.records import cluster
from spark_jobs.records.cluster import run
from spark_jobs.records.offsets import StreamOffset
from spark_jobs.records.options import SourceOptions
from spark_jobs.records.task import OffsetRange, limited, read_range, tasks

logger = logging.getLogger(__name__)


class _Reader:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, OffsetRange):  # Spark makes one of its own when there is nothing to read
            return iter(())
        return read_range(self._options, partition)

    def _tasks(self, wanted: list[OffsetRange]) -> list[OffsetRange]:
        return tasks(wanted, self._options.min_partitions, self._options.max_records_per_partition)


class BatchQueryReader(_Reader, DataSourceReader):
    """Bounds are looked up once, on the driver, when the query is planned."""

    @reported_first()
    def partitions(self) -> Sequence[InputPartition]:
        return self._tasks(run(self._ranges()))

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
            self._options.lose(
                f"{partition}: records from offset {start} to before {end} are asked for, and those from {there.start} "
                f"to before {there.end} are there"
            )
        return max(start, there.start), min(end, there.end)


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a streaming query. A partition that appears while it runs is read from its first record on."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._latest: StreamOffset | None = None
        self._target: StreamOffset | None = None  # the end for Trigger.AvailableNow
        self._triggered_s = -math.inf  # the monotonic time of the last trigger that took records

    @reported_first()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as those below)
        return run(self._initial()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most, least = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    @reported_first()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = run(cluster.settled(lambda _: self._asked()))

    @reported_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        at = StreamOffset.from_json(start)
        return run(cluster.settled(lambda at_last: self._next(at, limit, at_last))).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else self._latest.to_json()

    @reported_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        span = StreamOffset.from_json(start), StreamOffset.from_json(end)
        return self._tasks(run(cluster.settled(lambda at_last: self._ranges(*span, at_last))))

    async def _initial(self) -> StreamOffset:
        options = self._options
        async with cluster.admin(options) as client:
            assigned = await cluster.assigned(client, options, all_of_it=True)
            there = await cluster.ranges(client, options, assigned)
            starts = await cluster.resolve(client, options, options.starting, there, starting=True)
        for partition, offset in starts.items():
            first, end = there[partition]
            if not first <= offset <= end:
                start = f"the query starts at offset {offset}"
                self._options.lose(f"{partition}: {start}, and there are {first} to before {end}")
                starts[partition] = min(max(offset, first), end)
        return StreamOffset(starts, assigned.topic_ids)

    async def _asked(self) -> StreamOffset:
        async with cluster.admin(self._options) as client:
            return await self._now(client)

    async def _now(self, client: Admin) -> StreamOffset:
        """Return the ends of all partitions."""
        assigned = await cluster.assigned(client, self._options)
        ends = await cluster.offsets(client, self._options, dict.fromkeys(assigned.partitions, LATEST))
        return StreamOffset({partition: end or 0 for partition, end in ends.items()}, assigned.topic_ids)

    async def _next(self, start: StreamOffset, limit: ReadLimit, at_last: bool) -> StreamOffset:
        async with cluster.admin(self._options) as client:
            self._latest = now = await self._now(client)
            in_doubt = await self._report_topics(client, start, now, at_last)
            begins = await self._begins(client, start, now)
        for partition, begin in begins.items():
            if (end := now.offsets[partition]) < begin:
                self._options.lose(f"{partition} was read up to offset {begin}, and ends at {end} now")
        if not isinstance(limit, ReadAllAvailable) and self._is_too_little(start, now):
            return start
        ends = now.offsets
        if self._target is not None:
            target = self._target.offsets
            ends = {partition: min(end, target[partition]) for partition, end in ends.items() if partition in target}
        if isinstance(limit, ReadMaxRows):
            ends = limited(begins, ends, limit.max_rows)
        ends = {partition: end for partition, end in ends.items() if partition.topic not in in_doubt}
        stay = {partition: begin for partition, begin in start.offsets.items() if partition.topic in in_doubt}
        ids = {topic: topic_id for topic, topic_id in start.topic_ids.items() if topic in in_doubt}
        return StreamOffset(ends | stay, now.topic_ids | ids)

    def _is_too_little(self, start: StreamOffset, now: StreamOffset) -> bool:
        """Return True if a trigger waits for more records, as in Spark's Kafka source: not the first one, not for ever,
        not in Trigger.AvailableNow, and not when partitions come or go, otherwise these would be reported twice."""
        least, time_s = self._options.min_offsets_per_trigger, monotonic()
        backlog = sum(max(0, end - start.offsets.get(partition, 0)) for partition, end in now.offsets.items())
        if (
            least is not None
            and self._target is None
            and backlog < least
            and time_s - self._triggered_s < self._options.max_trigger_delay_s
            and start.offsets.keys() == now.offsets.keys()
            and start.topic_ids == now.topic_ids
        ):
            return True
        self._triggered_s = time_s
        return False

    async def _report_topics(self, client: Admin, known: StreamOffset, now: StreamOffset, at_last: bool) -> set[str]:
        """Report topics and partitions of `known` that are gone or not subscribed to any more.

        Raises UNKNOWN_TOPIC_ID if brokers differ on a topic; `at_last`, without failOnDataLoss, return those topics."""
        in_doubt, left = set[str](), "is not subscribed to any more"
        for topic in dict.fromkeys(partition.topic for partition in known.offsets):
            if topic in now.topic_ids and known.same_topic(topic, now):
                for partition in known.offsets:
                    if partition.topic == topic and partition not in now.offsets:
                        self._options.lose(f"{partition} {left}: what was not read yet is left out")
                continue
            if self._options.subscription.wants(topic):
                topic_id = known.topic_ids.get(topic, "")
                if not await cluster.is_gone(client, topic, topic_id, self._options.transport):
                    message = f"brokers differ on whether topic {topic!r} is there"
                    if not at_last or self._options.fail_on_data_loss:
                        raise ErrorCode.UNKNOWN_TOPIC_ID.error(f"{message}; start again")
                    logger.warning("%s: it is left where it is; failOnDataLoss is false: going on", message)
                    in_doubt.add(topic)
                    continue
                fate = "was deleted and created again" if topic in now.topic_ids else "was deleted"
            else:
                fate = left
            self._options.lose(f"topic {topic!r} {fate}: what was not read yet is left out")
        return in_doubt

    async def _begins(self, client: Admin, start: StreamOffset, end: StreamOffset) -> dict[TopicPartition, int]:
        """Return the offset from which each partition of `end` goes on: that of `start`, or its first if it is new."""
        begins = {
            partition: start.offsets[partition]
            for partition in end.offsets
            if partition in start.offsets and start.same_topic(partition.topic, end)
        }
        new = [partition for partition in end.offsets if partition not in begins]
        firsts = await cluster.offsets(client, self._options, dict.fromkeys(new, EARLIEST))
        for partition, first in firsts.items():
            begins[partition] = first or 0
            if first and partition not in start.offsets:
                self._options.lose(f"{partition} is new, and what it holds starts at offset {first}")
        return begins

    async def _ranges(self, start: StreamOffset, end: StreamOffset, at_last: bool) -> list[OffsetRange]:
        async with cluster.admin(self._options) as client:
            now = await self._now(client)
            in_doubt = await self._report_topics(client, end, now, at_last)
            there = {
                partition: offset
                for partition, offset in end.offsets.items()
                if (partition in now.offsets and now.same_topic(partition.topic, end))
                or (partition.topic in in_doubt and partition in start.offsets)  # its tasks find out
            }
            begins = await self._begins(client, start, StreamOffset(there, end.topic_ids))
        return [
            OffsetRange(*partition, end.topic_ids.get(partition.topic, ""), begins[partition], offset)
            for partition, offset in there.items()
        ]
