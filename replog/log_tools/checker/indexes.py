"""Reads the index files of one segment, and finds faults that need no look at the log."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, Protocol

from replog.config.properties import MAX_LONG
from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import BatchHeader
from replog.log.formats.segment_file import SegmentFile
from replog.log.indexes.entries import LAYOUTS, IndexFile, Rows
from replog.log_tools.checker.findings import Fault, Kind

SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, DIGEST_SUFFIX)
MAX_INDEX_BYTES = 64 << 20  # one file's: a whole index is held in memory
MAX_FAULTS = 100  # listed of each class and segment, or part of one: enough to see what happened

_first = itemgetter(1)


class Segment(Protocol):
    """The checker's view of a segment."""

    @property
    def base(self) -> int: ...

    @property
    def next_base(self) -> int | None:
        """The base offset of the next segment; None for the last one."""

    @property
    def cleaned_to(self) -> int:
        """Below it compaction may have removed offsets (CL-8)."""

    def open(self, suffix: str) -> AbstractContextManager[SegmentFile]:
        """Open one of its files. Raises FileNotFoundError if there is no such index, other OSErrors."""


class IndexEntries(NamedTuple):
    """The entries of an index file that are in order, with their slots, and the faults of its shape."""

    rows: Rows
    faults: list[Fault]
    present: bool
    disordered: dict[int, list[Fault]]  # entries that do not follow the one in a slot, `MAX_FAULTS` at most

    def out_of_order(self, lies: set[int]) -> Iterator[Fault]:
        """Yield faults of entries that are out of order, except behind wrong ones (`lies`, by slot)."""
        return chain.from_iterable(listed for before, listed in self.disordered.items() if before not in lies)


class Indexes(NamedTuple):
    """The entries of a segment's indexes, in the order of `SUFFIXES`."""

    offsets: IndexEntries
    times: IndexEntries
    digests: IndexEntries

    def shape_faults(self) -> Iterator[Fault]:
        for entries in self:
            yield from entries.faults

    @property
    def exact_to(self) -> int:
        """Up to this offset the entries are as replog writes them (by the rules here); -1 if there are no digests."""
        return self.digests.rows[-1][1] if self.digests.rows else -1

    def alone(self, entries: Iterable[tuple[int, int, int]], doubtful: set[int]) -> Iterator[Fault]:
        """Yield faults of the offset index's entries that have no digest beside them, as far as replog wrote these.

        Entries next to a digest that is `doubtful` (a slot) or out of order are left out: it may have been theirs."""
        rows, exact_to = self.digests.rows, self.exact_to
        for slot, offset, position in entries:
            at = bisect_left(rows, offset, key=_first)
            if offset > exact_to or rows[at][1] == offset:
                continue
            before, after = rows[at - 1][0] if at else -1, rows[at][0]
            if before not in self.digests.disordered and doubtful.isdisjoint((before, after)):
                yield lie(INDEX_SUFFIX, slot, offset, f"{offset} → {position}: no digest is at that offset")


def read_indexes(segment: Segment) -> Indexes:
    """Read all indexes. Call it before the log is opened: a live broker writes the log first."""
    return Indexes(*(read_index(segment, suffix) for suffix in SUFFIXES))


def read_index(segment: Segment, suffix: str) -> IndexEntries:
    """Read the entries of one of the segment's indexes, with absolute offsets."""
    try:
        with open_index(segment, suffix) as file:
            return _read(IndexFile(file, suffix), file.size, suffix, segment.base)
    except FileNotFoundError:  # no fault: index entries are only hints
        return IndexEntries(Rows(), [], False, {})


def _read(index: IndexFile, size: int, suffix: str, base: int) -> IndexEntries:
    rows = Rows()
    disordered: dict[int, list[Fault]] = {}
    left = MAX_FAULTS
    before: tuple[int, int] | None = None
    at = _offset_field(suffix)
    for slot, fields in enumerate(() if index.is_doubtful else index):
        entry = (fields[0] + base, fields[1]) if at == 0 else (fields[0], fields[1] + base)
        if _follows(suffix, before, entry, base):
            before = entry
            rows.append((slot, *entry))
        elif left:
            left -= 1
            why = "cannot be in this segment" if before is None else f"cannot come behind {before}: out of order"
            fault = lie(suffix, slot, entry[at], f"{entry} {why}", Kind.INDEX_ORDER)
            disordered.setdefault(rows[-1][0] if rows else -1, []).append(fault)
    return IndexEntries(rows, shape_faults(index, size, suffix, base), True, disordered)


def shape_faults(index: IndexFile, size: int, suffix: str, base: int) -> list[Fault]:
    """Find part of an entry at the end of `size` bytes, and zeros, which are no fault while the file grows (IX-2)."""
    seen = []
    if index.surplus:
        seen.append((Kind.INDEX_SHAPE, size - index.surplus, f"{index.surplus} bytes after its entries"))
    if index.unused:
        position = index.count * index.layout.size
        seen.append((Kind.PREALLOCATED, position, f"{index.unused} entries of zeros at the end"))
    return [Fault(kind, suffix, position, base, base, -1, detail) for kind, position, detail in seen]


def _offset_field(suffix: str) -> int:
    return 1 if suffix == TIME_INDEX_SUFFIX else 0


def _follows(suffix: str, before: tuple[int, int] | None, entry: tuple[int, int], base: int) -> bool:
    """Return True if offsets and positions, and timestamps, rise; a time index may repeat an offset (section 11)."""
    if not base <= entry[_offset_field(suffix)] <= MAX_LONG or (suffix == INDEX_SUFFIX and entry[1] < 0):
        return False
    if before is None:
        return True
    if before[0] >= entry[0]:
        return False
    return suffix == DIGEST_SUFFIX or before[1] < entry[1] or (suffix == TIME_INDEX_SUFFIX and before[1] == entry[1])


def lie(suffix: str, slot: int, offset: int, detail: str, kind: Kind = Kind.INDEX_ENTRY) -> Fault:
    """Return the fault of an entry for `offset` that cannot be right."""
    return Fault(kind, suffix, slot * LAYOUTS[suffix].size, offset, offset, -1, f"entry {slot}: {detail}")


@contextmanager
def open_index(segment: Segment, suffix: str) -> Iterator[SegmentFile]:
    """Open one of the segment's index files (10 MiB by default). Raises OSError if it is too large to be in memory."""
    with segment.open(suffix) as file:
        if file.size > MAX_INDEX_BYTES:
            raise OSError(f"{suffix} has {file.size} bytes, more than an index of one segment can need")
        yield file


def ends_batch(header: BatchHeader, offset: int, cleaned_to: int) -> bool:
    """Return True if an index may call `offset` the batch's last. Below `cleaned_to` it may be that of the last record
    that Kafka's cleaner kept."""
    return offset == header.last_offset or header.base_offset <= offset < min(header.last_offset, cleaned_to)


def times_batch(header: BatchHeader, offset: int, cleaned_to: int, *, exact: bool) -> bool:
    """Return True if a time index's entry with `offset` may belong to this batch.

    It has the batch's last offset. Leaders of older Kafka (3.3) have that of the record with the timestamp instead.
    `exact`: replog wrote it, as the digest index shows."""
    if exact:
        return ends_batch(header, offset, cleaned_to)
    return header.base_offset <= offset <= header.last_offset
