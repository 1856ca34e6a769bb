"""Runs the checker of segments (`log_tools.checker`) for audits: batches become rows, and faults have classes.

The short ways through a segment share numpy layouts, and checks of indexes and epochs. Any fault in these raises
`NotSound`, and the long way reports it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import HEADER, HEADER_SIZE, BatchHeader
from replog.log.formats.segment_file import Vanished
from replog.log.formats.walk import WINDOW
from replog.log.indexes.entries import IndexFile
from replog.log_tools.checker.findings import Fault
from replog.log_tools.checker.indexes import open_index, read_indexes
from replog.log_tools.checker.segment import EpochChecker, SegmentChecker
from spark_jobs.replicas.faults import UNREADABLE, VANISHED, FileFault, Item, capped
from spark_jobs.replicas.files import EpochCheckpoint, ReplicaSegment, open_log


class Batch(NamedTuple):
    """A sound batch."""

    position: int
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    size: int


def check_segment(segment: ReplicaSegment, log_start: int, *, crc: bool) -> Iterator[Batch | FileFault]:
    """Yield every sound batch, and every fault of the segment's log and indexes. Raises OSError if a file cannot be
    read. Without `crc` no payload is read, except where something does not fit.
    """
    return capped(_check(segment, log_start, crc))


def _check(segment: ReplicaSegment, log_start: int, crc: bool) -> Iterator[Batch | Fault]:
    indexes = read_indexes(segment)
    with open_log(segment, WINDOW if crc else HEADER_SIZE) as log:
        # A live broker writes an epoch before its first batch (EP-9): read before the log's size, it might miss.
        checkpoint = segment.epochs()
        entries = checkpoint.entries if checkpoint.fault is None else ()
        epochs = EpochChecker(entries, log_start, unclean=checkpoint.unclean, flushed=checkpoint.flushed)
        checker = SegmentChecker(segment, indexes, epochs, crc=crc)
        yield from indexes.shape_faults()
        for item in checker.run(log):
            if isinstance(item, Fault):
                yield item
                continue
            position, header = item
            yield Batch(position, header.base_offset, header.last_offset, header.leader_epoch, header.crc, header.size)
        yield from checker.finish(log)


def until_unread(segment: ReplicaSegment, items: Iterator[Item]) -> Iterator[Item | FileFault]:
    """Yield the items of a segment; if one of its files cannot be read, the last one is a fault that says so."""
    try:
        yield from items
    except OSError as error:
        kind = VANISHED if isinstance(error, Vanished) else UNREADABLE
        last = segment.base if segment.next_base is None else segment.next_base - 1
        yield FileFault(kind, LOG_SUFFIX, 0, segment.base, last, -1, str(error))


# -- the short ways

Array = np.ndarray[Any, np.dtype[Any]]

HEADER_LAYOUT = np.dtype([*zip(BatchHeader._fields, (f">{code}" for code in HEADER.format[1:]), strict=True)])
INDEX_LAYOUTS = {
    INDEX_SUFFIX: np.dtype([("offset", ">i4"), ("position", ">i4")]),
    TIME_INDEX_SUFFIX: np.dtype([("timestamp", ">i8"), ("offset", ">i4")]),
    DIGEST_SUFFIX: np.dtype([("offset", ">u4"), ("digest", ">u8")]),
}


class NotSound(Exception):
    """Something is wrong, or less simple than usual, so that the short way gives up."""


def require(sound: object) -> None:
    if not sound:
        raise NotSound


def check_epochs(checkpoint: EpochCheckpoint, log_start: int, epochs: Array, bases: Array, lasts: Array) -> None:
    """INV-15: check the epochs of batches, from their bases to their lasts, against the epoch checkpoint."""
    if checkpoint.fault is not None or not checkpoint.entries:
        return
    begin = max(log_start, checkpoint.begin)
    known, starts = np.array(checkpoint.entries, np.int64).T
    hidden = lasts < begin
    require(not (hidden & (lasts >= log_start) & (lasts == begin - 1) & (epochs < known[0])).any())
    for offsets in (np.maximum(bases, begin), lasts):
        at = np.searchsorted(starts, offsets, "right") - 1
        require((hidden | ((at >= 0) & (known[at] == epochs))).all())


def check_beside(offsets: Array, digests: Array) -> None:
    """Check that each offset entry up to the last digest has a digest entry; later ones may be Kafka's."""
    require(np.isin(offsets[offsets <= digests.max(initial=-1)], digests, assume_unique=True).all())


class SoundIndex:
    """The entries of an index file; `seen` counts those whose batches were checked."""

    def __init__(self, segment: ReplicaSegment, suffix: str) -> None:
        layout = INDEX_LAYOUTS[suffix]
        self.present, self.seen, self.seen_positions = True, 0, 0
        raw = b""
        try:
            with open_index(segment, suffix) as file:
                index = IndexFile(file, suffix)
                require(not index.surplus)
                raw = b"" if index.is_doubtful else b"".join(index.pieces())
        except FileNotFoundError:
            self.present = False
        stored = np.frombuffer(raw, layout)
        native = [(name, np.uint64 if name == "digest" else np.int64) for name in layout.names or ()]
        self.entries = stored.astype(native)
        self.entries["offset"] += segment.base
        self._check_order(suffix, segment.base)

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; -1 if there is none."""
        return int(self.entries["offset"][-1]) if len(self.entries) else -1

    def _check_order(self, suffix: str, base: int) -> None:
        offsets = self.entries["offset"]
        require((offsets >= base).all() and (offsets[1:] >= offsets[:-1]).all())
        growing = {INDEX_SUFFIX: ("offset", "position"), TIME_INDEX_SUFFIX: ("timestamp",), DIGEST_SUFFIX: ("offset",)}
        for name in growing[suffix]:
            require((self.entries[name][1:] > self.entries[name][:-1]).all())
        require(suffix != INDEX_SUFFIX or (self.entries["position"] >= 0).all())

    def find(self, firsts: Array, lasts: Array) -> tuple[Array, Array]:
        """Return the next entries up to the last of these batches, and the number of each one's batch.

        An entry for a batch has an offset from its `firsts` to its `lasts`.
        """
        offsets = self.entries["offset"]
        until = int(np.searchsorted(offsets, lasts[-1], "right"))
        entries = self.entries[self.seen : until]
        self.seen = until
        at = np.searchsorted(lasts, entries["offset"])
        require((firsts[at] <= entries["offset"]).all())
        return entries, at

    def until_position(self, position: int) -> Array:
        """Return the next entries by position, up to `position`."""
        until = int(np.searchsorted(self.entries["position"], position, "right"))
        entries = self.entries[self.seen_positions : until]
        self.seen_positions = until
        return entries
