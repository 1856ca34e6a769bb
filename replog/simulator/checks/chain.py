"""A log as the checks compare it: a list of its batches instead of bytes; and the headers and records in its files."""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from replog.log.compaction.rewriting import delete_horizon
from replog.log.formats.batch import CONTROL, TRANSACTIONAL, BatchHeader, iterate_batches
from replog.log.formats.control_batch import marker_or_none
from replog.log.formats.records import LogRecord, iterate_records
from replog.log.formats.segment_file import read_headers
from replog.log.log import Log
from replog.log.segment import Segment


class KnownBatch:
    """One batch: a single object for each (leader epoch, base offset), shared by all logs that hold it (INV-13).

    Two logs that share a batch hold the same bytes from the later of their starts to the end of that batch."""

    __slots__ = ("base", "crc", "epoch", "next", "previous")

    def __init__(self, base: int, following: int, epoch: int, crc: int, previous: "KnownBatch | None") -> None:
        self.base = base
        self.next = following  # the offset after its last
        self.epoch = epoch
        self.crc = crc
        self.previous = previous  # None: no log has shown yet which batch lies before it

    def __repr__(self) -> str:
        return f"{self.epoch}:{self.base}-{self.next - 1} (crc {self.crc:08x})"


class Chain:
    """Batches in the order of their offsets, and the leader epochs' starts that follow from them."""

    __slots__ = ("_bases", "batches", "runs")

    def __init__(self) -> None:
        self.batches: list[KnownBatch] = []
        self.runs: list[tuple[int, int]] = []  # (epoch, base offset of its first batch)
        self._bases: list[int] = []

    @property
    def last(self) -> KnownBatch | None:
        return self.batches[-1] if self.batches else None

    def append(self, batch: KnownBatch) -> None:
        if not self.runs or self.runs[-1][0] != batch.epoch:
            self.runs.append((batch.epoch, batch.base))
        self.batches.append(batch)
        self._bases.append(batch.base)

    def cut(self, count: int) -> None:
        """Keep the first `count` batches."""
        del self.batches[count:], self._bases[count:]
        end = self._bases[-1] if self._bases else -1
        while self.runs and self.runs[-1][1] > end:
            self.runs.pop()

    def at(self, offset: int) -> KnownBatch | None:
        """Return the batch that holds `offset`, or None."""
        slot = bisect_right(self._bases, offset) - 1
        if slot >= 0 and (batch := self.batches[slot]).next > offset:
            return batch
        return None

    def slot_from(self, offset: int) -> int:
        """Return the index of the batch that holds `offset`, or of the next one."""
        slot = bisect_right(self._bases, offset)
        return slot - 1 if slot > 0 and self.batches[slot - 1].next > offset else slot

    def __str__(self) -> str:
        """Show the offsets of each epoch, as in `0:0-4 1:5-9`; `∅` if there are none."""
        parts: list[list[int]] = []
        for batch in self.batches:
            if parts and parts[-1][0] == batch.epoch and parts[-1][2] == batch.base - 1:
                parts[-1][2] = batch.next - 1
            else:
                parts.append([batch.epoch, batch.base, batch.next - 1])
        return " ".join(f"{epoch}:{first}-{last}" for epoch, first, last in parts) or "∅"


def cache_text(entries: Iterable[tuple[int, int]]) -> str:
    """Show epochs with their start offsets, as in `(0@0)(1@5)`."""
    return "".join(f"({epoch}@{start})" for epoch, start in entries) or "∅"


def all_headers(log: Log) -> Iterator[BatchHeader]:
    """Yield all headers from the files, in order."""
    for segment in log.segments:
        yield from _on_disk(segment)


def headers_from(log: Log, offset: int) -> list[BatchHeader]:
    """Return the headers that begin at or after `offset`; no file is read if memory has them all."""
    headers: list[BatchHeader] = []
    for segment in reversed(log.segments):
        recent = segment.recent
        complete = False
        for _, header in reversed(recent):
            if header.base_offset < offset:
                complete = True
                break
            headers.append(header)
        if complete or (headers and headers[-1].base_offset == offset):
            break
        if not recent or recent[0][0] > 0:  # the segment was rolled, or has more than memory holds
            del headers[len(headers) - len(recent) :]
            headers += reversed([header for header in _on_disk(segment) if header.base_offset >= offset])
        if segment.base_offset <= offset:
            break
    headers.reverse()
    return headers


def headers_of(segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch in the segment's file."""
    if not segment.size:
        return
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from read_headers(fd, segment.size, 0)
    finally:
        os.close(fd)


def _on_disk(segment: Segment) -> Iterator[BatchHeader]:
    return (header for _, header in headers_of(segment))


class Kept(NamedTuple):
    record: LogRecord
    epoch: int
    producer_id: int
    transactional: bool
    commits: bool | None  # True or False: a marker that commits or aborts; None: data
    expires: bool  # a cleaning has set when it may go (CL-6)


Records = Mapping[int, Kept]  # keys are offsets, in rising order


def records_of(files: Iterable[tuple[Path, int]], start: int = 0) -> Iterator[Kept]:
    """Yield the records from offset `start` on. `files`: the segments' paths and sizes, in order."""
    for path, size in files:
        data = path.read_bytes()[:size]
        for position, header in iterate_batches(data):
            if header.next_offset <= start:
                continue
            marker = marker_or_none(data, header, position)
            for record in iterate_records(data, header, position):
                if record.offset >= start:
                    yield Kept(
                        record,
                        header.leader_epoch,
                        header.producer_id,
                        bool(header.attributes & TRANSACTIONAL),
                        marker.committed if header.attributes & CONTROL and marker is not None else None,
                        delete_horizon(header) is not None,
                    )


def transactions(records: Records) -> tuple[set[int], set[int]]:
    """Return the offsets of aborted data, and those of data that no marker decides."""
    void: set[int] = set()
    undecided: dict[int, set[int]] = {}
    for offset, kept in records.items():
        if kept.commits is not None:
            ended = undecided.pop(kept.producer_id, set())
            void |= set() if kept.commits else ended
        elif kept.transactional:
            undecided.setdefault(kept.producer_id, set()).add(offset)
    return void, set().union(*undecided.values())


def latest_values(records: Iterable[Kept], start: int) -> dict[bytes | None, LogRecord]:
    """Return the latest record of each key, also a tombstone, from offset `start` on, without aborted data."""
    by_offset = {kept.record.offset: kept for kept in records if kept.record.offset >= start}
    void, _ = transactions(by_offset)
    kept = (each for offset, each in by_offset.items() if each.commits is None and offset not in void)
    return {each.record.key: each.record for each in kept}
