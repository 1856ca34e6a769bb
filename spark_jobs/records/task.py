"""The tasks of a query: the offsets of a trigger are divided among them, and each fetches its own as Arrow batches."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from replog.client import Consumer
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition
from spark_jobs.kafka_options import reported_first
from spark_jobs.records import cluster
from spark_jobs.records.cluster import run
from spark_jobs.records.decoding import BadRecords, Batches, arrow_batches, checked_batches
from spark_jobs.records.options import SourceOptions

POLL_S = 1.0
ANSWER_S = 10.0  # the leader's time to answer whether its log ends before the range
UNKNOWN_S = 10.0  # a topic that nobody knows for this time may be gone


@dataclass
class OffsetRange(InputPartition):
    """The records that one task reads: of one partition, from `start` to before `end`."""

    topic: str
    partition: int
    topic_id: str  # hexadecimal; "": any topic of the name
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def limited(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Lower `end` so that at most `limit` offsets are taken, from each partition in proportion to its backlog.

    Small backlogs get at least one offset, otherwise they would wait until the larger ones are read."""
    sizes = {partition: max(0, end[partition] - start[partition]) for partition in end}
    room, left = limit, sum(sizes.values())
    ends = dict(end)
    for partition, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        if size:
            share = min(size, room, max(1, room * size // left))
            ends[partition] = start[partition] + share
            room -= share
            left -= size
    return ends


def tasks(ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    """Return a task for each range that is not empty; more of even size for `min_partitions` or `max_records`."""
    ranges = [wanted for wanted in ranges if wanted.size > 0]
    total = sum(wanted.size for wanted in ranges)
    pieces: list[OffsetRange] = []
    for wanted in ranges:
        parts = 1
        if min_partitions is not None and min_partitions > len(ranges):
            parts = -(-min_partitions * wanted.size // total)
        if max_records is not None:
            parts = max(parts, -(-wanted.size // max_records))
        pieces += _split(wanted, min(parts, wanted.size))
    return pieces


def _split(wanted: OffsetRange, parts: int) -> list[OffsetRange]:
    edges = [wanted.start + wanted.size * number // parts for number in range(parts + 1)]
    return [OffsetRange(wanted.topic, wanted.partition, wanted.topic_id, start, end) for start, end in pairwise(edges)]


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield exactly the records of the range that the isolation level shows; the next are fetched meanwhile.

    Raises what the client raises, REQUEST_TIMED_OUT if nothing comes for `kafkaConsumer.pollTimeoutMs`, what
    `options.lose` raises if records of the range are gone, and what `BadRecords` raises."""
    reading = _Reading(options, wanted)
    bad = BadRecords(TopicPartition(wanted.topic, wanted.partition), fail=options.fail_on_bad_records)
    with reported_first():
        run(reading.open())
        try:
            while (fetched := run(reading.fetch())) is not None:
                yield from arrow_batches(fetched, wanted.end, bad, headers=options.headers)
        finally:
            bad.warn()
            run(reading.consumer.close())


class _Reading:
    consumer: Consumer

    def __init__(self, options: SourceOptions, wanted: OffsetRange) -> None:
        self._options = options
        self._wanted = wanted
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        self._position = wanted.start
        self._end = wanted.end  # lower once the log is known to end before it

    async def open(self) -> None:
        options = self._options
        self.consumer = Consumer(
            options.bootstrap, auto_offset_reset="error", transport=options.transport, **options.consumer
        )
        self.consumer.assign([self._partition])
        self.consumer.seek(self._partition, self._position)

    async def fetch(self) -> Batches | None:
        """Return the next batches; None once the range is read, or the rest of it is lost."""
        loop = asyncio.get_running_loop()
        started = known = loop.time()
        while self._position < self._end:
            try:
                fetched = await self.consumer.fetch_decoded(checked_batches, POLL_S)
            except ReplogError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                if await self._is_gone():
                    self._lose(self._position, self._end, "its topic was deleted")
                    return None
                await self._narrow()
                continue
            topic_id = self.consumer.topic_id(self._wanted.topic)
            if topic_id is not None:
                known = loop.time()
            another = topic_id is not None and self._wanted.topic_id not in ("", topic_id.hex())
            if (another or loop.time() - known > UNKNOWN_S) and await self._is_gone():
                self._lose(self._position, self._end, "its topic was deleted" + " and created again" * another)
                return None
            if another:  # one broker has another topic of this name: otherwise its records would be taken
                self.consumer.seek(self._partition, self._position)
            elif fetched is not None:
                self._position = fetched.next_offset
                return fetched
            if loop.time() - started > self._options.poll_timeout_s:
                await self._check_end()
                started = loop.time()
        return None

    async def _check_end(self) -> None:
        """Raise REQUEST_TIMED_OUT, unless the leader's log ends before the range does.

        The log end decides, since the high watermark may be behind for long after an election."""
        self.consumer.seek(self._partition, self._end)
        try:
            await self.consumer.fetch_decoded(checked_batches, ANSWER_S)
        except ReplogError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._narrow()
            return
        raise ErrorCode.REQUEST_TIMED_OUT.error(
            f"{self._partition}: nothing came from offset {self._position} on in {self._options.poll_timeout_s:g} s; "
            "is its leader up? Else raise kafkaConsumer.pollTimeoutMs"
        )

    async def _narrow(self) -> None:
        """Leave out the part of the range before the log's start or after its end."""
        log_start = (await self.consumer.beginning_offsets([self._partition]))[self._partition]
        high_watermark = (await self.consumer.end_offsets([self._partition]))[self._partition]
        if log_start > self._position:
            first = min(log_start, self._end)
            self._lose(self._position, first, f"the log starts at offset {log_start}")
            self._position = first
        else:
            end = max(self._position, min(high_watermark, self._end))
            self._lose(end, self._end, "the log was truncated")
            self._end = end
        self.consumer.seek(self._partition, self._position)

    async def _is_gone(self) -> bool:
        async with cluster.admin(self._options) as client:
            return await cluster.is_gone(client, self._wanted.topic, self._wanted.topic_id, self._options.transport)

    def _lose(self, first: int, end: int, why: str) -> None:
        self._options.lose(f"{self._partition}: the records from offset {first} to before {end} are gone: {why}")
