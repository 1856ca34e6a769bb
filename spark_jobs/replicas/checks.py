"""`replog_checks`: the data source of the audit. One pass over segments, as one of four kinds of check.

Options, beside those of all sources: `pass` = blocks, digests, indexes, batches or records; `crc` = false to read no
payload (blocks and batches); `entries` = true for a point of every index entry (digests and indexes); `bounds` = JSON
rows [topic, partition, replica, high watermark, log end, cleaned to] as they were before anything was read; `ranges` =
JSON rows [topic, partition, first, last], of which other offsets come to no rows, except for faults; `starts` = JSON
rows [topic, partition, offset]: what lies below need not be read.

Below the greatest `cleaned to` of a partition's replicas offsets may be missing (CL-10): the pass `records` has rows of
that part, the others check it and have rows of what lies above.

A row is a block of batches or of index entries (`number` is set), a point of an index (`kind`), a batch (`crc`), a
record (`crc`, which is a hash, and `flags`), a fault (`fault`), or the count of bytes that a segment took (`read`).
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from replog.config import MAX_LONG
from replog.log.files import LOG_SUFFIX
from spark_jobs.replicas.blocks import Block, Cells, block_span, check_blocks
from spark_jobs.replicas.cleaned import CleanedRecord, cleaned_records
from spark_jobs.replicas.counting import CountingStore
from spark_jobs.replicas.digests import digest_points
from spark_jobs.replicas.files import UNREADABLE, VANISHED, PartitionFiles, Segment, Vanished
from spark_jobs.replicas.index_blocks import index_blocks
from spark_jobs.replicas.index_check import Point, index_points
from spark_jobs.replicas.scan import Fault
from spark_jobs.replicas.segment_check import Batch, check_segment
from spark_jobs.replicas.sources import MAX_SEGMENTS, PACKED_BYTES, ReplicaReader, ReplicaSource

BLOCKS, DIGESTS, INDEXES, BATCHES, RECORDS = "blocks", "digests", "indexes", "batches", "records"

CHECKS_SCHEMA = (
    "replica int, topic string, partition int, segment long, position long, base_offset long, last_offset long, "
    "leader_epoch int, crc long, size long, kind string, slot int, value long, number long, cell int, batches long, "
    "read long, fault string, file string, detail string, key binary, producer long, flags int"
)
_last = itemgetter(1)
_COLUMNS = [column.split()[0] for column in CHECKS_SCHEMA.split(", ")][4:]  # after the place
_NOTHING = (None,) * len(_COLUMNS)

_Item = Block | Point | Batch | CleanedRecord | Fault


class _Work(NamedTuple):
    """A segment to check, and what its partition's replicas are to be compared by."""

    segment: Segment
    log_start: int
    cells: Cells


@dataclass
class WorkPartition(InputPartition):
    """Segments to check: one, or several small ones."""

    work: list[_Work] = field(default_factory=list)


class ChecksSource(ReplicaSource):
    """See the module."""

    columns = CHECKS_SCHEMA
    own_options = frozenset({"pass", "crc", "entries", "bounds", "ranges", "starts"})

    @classmethod
    def name(cls) -> str:
        return "replog_checks"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ChecksReader(self)


class _ChecksReader(ReplicaReader):
    def __init__(self, source: ChecksSource) -> None:
        super().__init__(source)
        self._pass = source.options["pass"]
        self._crc = source.flag("crc", "true")
        self._entries = source.flag("entries", "false")
        self._bounds = [tuple(row) for row in json.loads(source.options["bounds"])]
        ranges = json.loads(source.options.get("ranges", "null"))
        self._ranges = None if ranges is None else _by_partition(ranges)
        starts = json.loads(source.options.get("starts", "[]"))
        self._starts = {(topic, partition): start for topic, partition, start in starts}

    def partitions(self) -> Sequence[InputPartition]:
        """One for each segment, but small ones share: a task costs more than reading a few MiB."""
        listed = self._listed()
        cells = cells_of(listed, self._bounds, self._starts)
        packed: list[WorkPartition] = []
        room = -1
        for files in listed:
            place = (files.replica, *files.partition)
            for segment in files.segments:
                if place not in cells or not self._is_wanted(segment):
                    continue
                if segment.next_base is not None and segment.next_base <= cells[place].begin:
                    continue
                if self._pass == RECORDS and segment.base > cells[place].cleaned_to:
                    continue
                if segment.size > room or len(packed[-1].work) == MAX_SEGMENTS:
                    packed.append(WorkPartition())
                    room = PACKED_BYTES
                packed[-1].work.append(_Work(segment, files.log_start, cells[place]))
                room -= segment.size
        return packed or [WorkPartition()]  # Spark would make up one of its own

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, WorkPartition)
        return self._batches(row for work in partition.work for row in self._rows(work))

    def _rows(self, work: _Work) -> Iterator[tuple[Any, ...]]:
        store = CountingStore(work.segment.store)
        segment = replace(work.segment, store=store, cleaned_to=work.cells.cleaned_to)
        place = (segment.replica, segment.topic, segment.partition, segment.base)
        try:
            for item in self._check(segment, work):
                if _is_compared(item, work.cells):
                    yield (*place, *_columns(item))
        except OSError as error:
            last = segment.base if segment.next_base is None else segment.next_base - 1
            kind = VANISHED if isinstance(error, Vanished) else UNREADABLE
            fault = Fault(kind, LOG_SUFFIX, 0, segment.base, last, -1, str(error))
            yield (*place, *_columns(fault))
        finally:
            store.close()
        yield (*place, *_row(read=store.bytes_read))

    def _check(self, segment: Segment, work: _Work) -> Iterator[_Item]:
        if self._pass == RECORDS:
            return cleaned_records(segment, max(work.log_start, work.cells.begin))
        if self._pass == BLOCKS:
            return check_blocks(segment, work.log_start, work.cells, crc=self._crc)
        if self._pass == DIGESTS:
            return digest_points(segment, list(work.cells.cuts), entries=self._entries)
        if self._pass == INDEXES and self._entries:
            return index_points(segment, work.log_start, list(work.cells.cuts))
        if self._pass == INDEXES:
            return index_blocks(segment, work.log_start, work.cells)
        return self._wanted(segment, check_segment(segment, work.log_start, crc=self._crc))

    def _wanted(self, segment: Segment, items: Iterator[Batch | Fault]) -> Iterator[Batch | Fault]:
        ranges = self._ranges_of(segment)
        return (item for item in items if isinstance(item, Fault) or ranges.overlap(item.base_offset, item.last_offset))

    def _is_wanted(self, segment: Segment) -> bool:
        last = MAX_LONG if segment.next_base is None else segment.next_base - 1
        return self._ranges is None or self._ranges_of(segment).overlap(segment.base, last)

    def _ranges_of(self, segment: Segment) -> "Ranges":
        return (self._ranges or {}).get((segment.topic, segment.partition), Ranges([]))


class Ranges:
    """Ranges of offsets, of which there may be thousands to be asked for every batch and segment."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges: list[tuple[int, int]] = []  # in order, and none overlaps another
        for first, last in sorted(ranges):
            if self._ranges and first <= self._ranges[-1][1]:
                first, before = self._ranges.pop()
                last = max(before, last)
            self._ranges.append((first, last))

    def overlap(self, first: int, last: int) -> bool:
        at = bisect_left(self._ranges, first, key=_last)
        return at < len(self._ranges) and self._ranges[at][0] <= last


def _by_partition(ranges: Iterable[tuple[str, int, int, int]]) -> dict[tuple[str, int], Ranges]:
    found = defaultdict(list)
    for topic, partition, first, last in ranges:
        found[topic, partition].append((first, last))
    return {place: Ranges(listed) for place, listed in found.items()}


def cells_of(
    listed: list[PartitionFiles],
    bounds: list[tuple[str, int, int, int | None, int, int]],
    starts: Mapping[tuple[str, int], int] = MappingProxyType({}),
) -> dict[tuple[int, str, int], Cells]:
    """By replica, topic and partition; without replicas that `bounds` does not name."""
    described = {(replica, topic, partition): (mark, log_end) for topic, partition, replica, mark, log_end, _ in bounds}
    cleaned: dict[tuple[str, int], int] = defaultdict(int)
    for topic, partition, *_, cleaned_to in bounds:
        cleaned[topic, partition] = max(cleaned[topic, partition], cleaned_to)
    groups: dict[tuple[str, int], list[PartitionFiles]] = defaultdict(list)
    for files in listed:
        if files.segments and (files.replica, *files.partition) in described:
            groups[files.partition.topic, files.partition.partition].append(files)
    cells = {}
    for (topic, partition), members in groups.items():
        start = starts.get((topic, partition), 0)
        cleaned_to = cleaned[topic, partition]
        cuts = {start, cleaned_to}
        offsets = size = 0
        for files in members:
            mark, log_end = described[files.replica, topic, partition]
            cuts |= {files.segments[0].base, files.log_start, log_end if mark is None else mark, log_end}
            offsets = max(offsets, log_end - files.segments[0].base)
            size = max(size, sum(segment.size for segment in files.segments))
        for files in members:
            place = (files.replica, topic, partition)
            cells[place] = Cells(block_span(offsets, size), tuple(sorted(cuts)), described[place][1], start, cleaned_to)
    return cells


def _is_compared(item: _Item, cells: Cells) -> bool:
    """Whether it is more than what the replica's own check needs."""
    if isinstance(item, Point):
        return item.offset + 1 >= cells.cleaned_to
    return not isinstance(item, Batch) or item.base_offset >= cells.cleaned_to


def _columns(item: _Item) -> tuple[Any, ...]:
    if isinstance(item, Block):
        return _row(
            base_offset=item.first,
            last_offset=item.last,
            size=item.size,
            value=_signed(item.digest),
            number=item.number,
            cell=item.cell,
            batches=item.batches,
        )
    if isinstance(item, Point):
        at = (item.position, item.offset, item.offset, None, None, None)
        return (*at, item.kind, item.slot, _signed(item.value), *_NOTHING[9:])
    if isinstance(item, Batch):
        return (*item, *_NOTHING[6:])
    if isinstance(item, CleanedRecord):
        return (*item[:6], *_NOTHING[9:], *item[6:])
    return _row(
        position=item.position,
        base_offset=item.first,
        last_offset=item.last,
        leader_epoch=item.epoch,
        fault=item.fault,
        file=item.file,
        detail=item.detail,
    )


def _row(**values: Any) -> tuple[Any, ...]:
    """The columns after the place."""
    return tuple(map(values.get, _COLUMNS))


def _signed(value: int | None) -> int | None:
    """A 64-bit digest as Spark's signed long; differences stay right modulo 2^64."""
    return value if value is None or value < 2**63 else value - 2**64
