"""A log as a list of batches, which the checks compare instead of bytes, and the headers in its files."""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from replog.log.formats.batch import BatchHeader
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
