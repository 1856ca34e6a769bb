"""`replog_checks`, the data source of the audit: one pass over segments, with one of five kinds of check.

Its own options: `pass` = blocks, digests, indexes, batches or records; `crc` = false to read no payload (blocks and
batches); `entries` = true for a point of every index entry (digests and indexes); `bounds` = JSON rows [topic,
partition, replica, high watermark, log end, cleaned to], from before anything was read; `ranges` = JSON rows [topic,
partition, first, last], outside of which only faults make rows; `starts` = JSON rows [topic, partition, offset], below
which nothing need be read.

Below the greatest `cleaned to` of a partition's replicas offsets may be missing (CL-10): the pass `records` has rows of
that part, the others check it, and have rows of the part above.

A row is a block of batches or of index entries (`number` is set), a point of an index (`kind`), a batch (`crc`), a
record (`crc`, which is a hash, and `flags`), a fault (`fault`), or the count of bytes that a segment took (`read`).
"""

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from replog.config.properties import MAX_LONG
from replog.log.files.names import LOG_SUFFIX
from spark_jobs.replicas.blocks import Block, Cells, Producing, block_span, check_blocks
from spark_jobs.replicas.cleaned import CleanedRecord, cleaned_records
from spark_jobs.replicas.digests import digest_points
from spark_jobs.replicas.faults import EPOCH_CACHE_LIE, FileFault
from spark_jobs.replicas.files import PartitionFiles, ReadCount, ReplicaSegment
from spark_jobs.replicas.index_check import Point, index_blocks, index_points
from spark_jobs.replicas.producers import producer_faults
from spark_jobs.replicas.segment_check import Batch, check_segment, until_unread
from spark_jobs.replicas.sources import ReplicaSource, Row, SegmentReader, packed, place_of, signed

BLOCKS, DIGESTS, INDEXES, BATCHES, RECORDS = "blocks", "digests", "indexes", "batches", "records"

_COMPARED = "position long, base_offset long, last_offset long, leader_epoch int, crc long, size long"  # a `Batch`
_RECORD = "key binary, producer long, flags int"  # the other fields of a `CleanedRecord`
CHECKS_SCHEMA = (
    f"replica int, topic string, partition int, segment long, {_COMPARED}, {_RECORD}, kind string, "
    "value long, number long, cell int, batches long, read long, fault string, file string, detail string"
)
_UNSET = (None,) * len(CHECKS_SCHEMA.split(", "))
_last = itemgetter(1)

_Item = Block | Point | Batch | CleanedRecord | FileFault


class CheckWork(NamedTuple):
    """A segment to check, with the cells in which its partition's replicas are compared."""

    segment: ReplicaSegment
    log_start: int
    cells: Cells
    mark: int  # the replica's high watermark


class _ChecksReader(SegmentReader):
    def __init__(self, source: ReplicaSource) -> None:
        super().__init__(source)
        self._pass = source.options["pass"]
        self._crc = source.flag("crc", "true")
        self._entries = source.flag("entries", "false")
        self._bounds = [tuple(row) for row in json.loads(source.options["bounds"])]
        named = {replica for _, _, replica, *_ in self._bounds}
        self._stores = [store for store in self._stores if store.replica in named]  # others may be down
        ranges = json.loads(source.options.get("ranges", "null"))
        self._ranges = None if ranges is None else _by_partition(ranges)
        starts = json.loads(source.options.get("starts", "[]"))
        self._starts = {(topic, partition): start for topic, partition, start in starts}

    def partitions(self) -> Sequence[InputPartition]:
        listed = self.listed()
        cells = cells_of(listed, self._bounds, self._starts)
        marks = {(replica, topic, partition): mark or 0 for topic, partition, replica, mark, *_ in self._bounds}
        return packed(
            CheckWork(segment, files.log_start, cells[place], marks[place])
            for files in listed
            if (place := (files.replica, *files.partition)) in cells
            for segment in files.segments
            if self._is_wanted(segment, cells[place])
        )

    def rows(self, work: CheckWork) -> Iterator[Row]:
        count = ReadCount()
        segment = replace(work.segment, count=count, cleaned_to=work.cells.cleaned_to)
        for item in until_unread(segment, self._check(segment, work)):
            if _is_compared(item, work.cells):
                yield self._row_of(segment, item)
        yield self.row(**place_of(segment), read=count.bytes)

    def _check(self, segment: ReplicaSegment, work: CheckWork) -> Iterator[_Item]:
        if self._pass == RECORDS:
            return cleaned_records(segment, max(work.log_start, work.cells.begin))
        if self._pass == BLOCKS:
            producing: list[Producing] = []
            items = check_blocks(segment, work.log_start, work.cells, crc=self._crc, producing=producing)
            return self._with_producers(items, segment, work, producing) if self._crc else items
        if self._pass == DIGESTS:
            return digest_points(segment, list(work.cells.cuts), entries=self._entries)
        if self._pass == INDEXES and self._entries:
            return index_points(segment, work.log_start, list(work.cells.cuts))
        if self._pass == INDEXES:
            return index_blocks(segment, work.log_start, work.cells)
        return self._in_ranges(work, check_segment(segment, work.log_start, crc=self._crc))

    def _with_producers(
        self, items: Iterator[Block | FileFault], segment: ReplicaSegment, work: CheckWork, producing: list[Producing]
    ) -> Iterator[_Item]:
        """Yield `items`, then the faults of the transaction index and snapshots, if the log itself has none."""
        sound = True
        for item in items:
            sound &= not isinstance(item, FileFault) or item.file != LOG_SUFFIX or item.fault == EPOCH_CACHE_LIE
            yield item
        if sound:
            yield from producer_faults(segment, work.log_start, work.mark, next(iter(producing), None))

    def _in_ranges(self, work: CheckWork, items: Iterator[Batch | FileFault]) -> Iterator[Batch | FileFault]:
        ranges = self._ranges_of(work.segment)
        for item in items:
            if isinstance(item, FileFault):
                yield item
            elif ranges.overlap(item.base_offset, item.last_offset):
                yield item
                yield from _from_cuts(item, work.cells)

    def _is_wanted(self, segment: ReplicaSegment, cells: Cells) -> bool:
        last = MAX_LONG if segment.next_base is None else segment.next_base - 1
        if last < cells.begin or (self._pass == RECORDS and segment.base > cells.cleaned_to):
            return False
        return self._ranges is None or self._ranges_of(segment).overlap(segment.base, last)

    def _ranges_of(self, segment: ReplicaSegment) -> "Ranges":
        return (self._ranges or {}).get((segment.topic, segment.partition), Ranges([]))

    def _row_of(self, segment: ReplicaSegment, item: _Item) -> Row:
        if isinstance(item, FileFault):
            return self.fault_row(segment, item)
        place = place_of(segment)
        if isinstance(item, Block):
            number, cell, first, last, batches, size, digest = item
            span = {"base_offset": first, "last_offset": last, "size": size, "value": signed(digest)}
            return self.row(**place, **span, number=number, cell=cell, batches=batches)
        if isinstance(item, Point):
            at = {"base_offset": item.offset, "last_offset": item.offset}
            return self.row(**place, **at, kind=item.kind, value=signed(item.value))
        begun = (*place.values(), *item)  # both are in the order of columns
        return (*begun, *_UNSET[len(begun) :])


class ChecksSource(ReplicaSource):
    called = "replog_checks"
    columns = CHECKS_SCHEMA
    own_options = frozenset({"pass", "crc", "entries", "bounds", "ranges", "starts"})
    reads = _ChecksReader


class Ranges:
    """Ranges of offsets, maybe thousands, which are searched for every batch and segment."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges: list[tuple[int, int]] = []  # ascending, and none overlaps another
        for first, last in sorted(ranges):
            if self._ranges and first <= self._ranges[-1][1]:
                first, before = self._ranges.pop()
                last = max(before, last)
            self._ranges.append((first, last))

    def overlap(self, first: int, last: int) -> bool:
        at = bisect_left(self._ranges, first, key=_last)
        return at < len(self._ranges) and self._ranges[at][0] <= last


def _by_partition(ranges: Iterable[tuple[str, int, int, int]]) -> dict[tuple[str, int], Ranges]:
    by_partition = defaultdict(list)
    for topic, partition, first, last in ranges:
        by_partition[topic, partition].append((first, last))
    return {place: Ranges(listed) for place, listed in by_partition.items()}


def cells_of(
    listed: list[PartitionFiles],
    bounds: list[tuple[str, int, int, int | None, int, int]],
    starts: Mapping[tuple[str, int], int] = MappingProxyType({}),
) -> dict[tuple[int, str, int], Cells]:
    """Return the cells by replica, topic and partition, for each replica that `bounds` names."""
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
    """Return True if the item is compared with other replicas, and not only part of the replica's own check."""
    if isinstance(item, Point):
        return item.offset + 1 >= cells.cleaned_to
    return not isinstance(item, Batch) or item.base_offset >= cells.cleaned_to


def _from_cuts(batch: Batch, cells: Cells) -> Iterator[Batch]:
    """Yield the batch once more for each cut within it, as if it began there, so that it is compared with a replica
    whose log begins at the cut."""
    if batch.base_offset >= cells.cleaned_to:
        first, end = (bisect_right(cells.cuts, offset) for offset in (batch.base_offset, batch.last_offset))
        yield from (batch._replace(base_offset=cut) for cut in cells.cuts[first:end])
