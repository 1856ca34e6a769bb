"""Chooses the offsets of a trigger, and divides them among tasks. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from replog.topic import TopicPartition


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
