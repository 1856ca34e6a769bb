"""The index files of one segment: their entries, and what is wrong with them whatever the log holds."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from replog.log.errors import CorruptRecord
from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.segment_file import SegmentFile
from replog.log.formats.walk import LogFile
from replog.log.indexes.entries import LAYOUTS, IndexFile, Rows, used_slots
from replog.properties import MAX_LONG
from spark_jobs.replicas.faults import INDEX_LIE, MAX_FAULTS, FileFault
from spark_jobs.replicas.files import ReplicaSegment

SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, DIGEST_SUFFIX)
MAX_INDEX_BYTES = 64 << 20  # of one file: what it takes to walk a segment is in memory
FIRST_ENTRIES = 4096  # bytes of an index read from its end at once, then twice as many, and so on
MOST_ENTRIES = 1 << 20  # bytes, at most

_first = itemgetter(1)
_second = itemgetter(2)


class IndexEntries(NamedTuple):
    """The entries of an index file that are in order, with their slots, and what is wrong with its shape."""

    rows: Rows
    faults: list[FileFault]
    present: bool
    disordered: dict[int, list[FileFault]]  # those that do not follow the entry in a slot, `MAX_FAULTS` at most

    def out_of_order(self, lies: set[int], first: int = -1, end: int = MAX_LONG) -> Iterator[FileFault]:
        """Faults of entries that are out of order, except those behind an entry that is known to lie (a slot).

        Only of those behind an entry in a slot from `first` to `end`; -1 is what comes before the first entry.
        """
        faults = (listed for before, listed in self.disordered.items() if first <= before < end and before not in lies)
        return chain.from_iterable(faults)


class Indexes(NamedTuple):
    """The entries of a segment's indexes, in the order of `SUFFIXES`."""

    offsets: IndexEntries
    times: IndexEntries
    digests: IndexEntries

    def shape_faults(self) -> Iterator[FileFault]:
        for entries in self:
            yield from entries.faults

    @property
    def exact_to(self) -> int:
        """Up to this offset the entries are as replog writes them (`indexes.rules`); -1 if there are no digests."""
        return self.digests.rows[-1][1] if self.digests.rows else -1

    def alone(self, entries: Iterable[tuple[int, int, int]], doubtful: set[int]) -> Iterator[FileFault]:
        """Faults of entries of the offset index that have no digest beside them, as far as these are ours.

        Not of those next to a digest that is `doubtful` (a slot) or out of order: it may have been theirs.
        """
        rows, exact_to = self.digests.rows, self.exact_to
        for slot, offset, position in entries:
            at = bisect_left(rows, offset, key=_first)
            if offset > exact_to or rows[at][1] == offset:
                continue
            before, after = rows[at - 1][0] if at else -1, rows[at][0]
            if before not in self.digests.disordered and doubtful.isdisjoint((before, after)):
                yield lie(INDEX_SUFFIX, slot, offset, f"{offset} → {position}: no digest is at that offset")

    def from_offset(self, slot: int, offset: int) -> list[int]:
        """How many entries each index has before entry `slot` of the offset index, whose batch begins with `offset`."""
        return [
            slot,
            bisect_left(self.times.rows, offset, key=_second),
            bisect_left(self.digests.rows, offset, key=_first),
        ]


def read_indexes(segment: ReplicaSegment) -> Indexes:
    """To be called before the log is opened: a live broker writes it first."""
    return Indexes(*(read_index(segment, suffix) for suffix in SUFFIXES))


def read_index(segment: ReplicaSegment, suffix: str) -> IndexEntries:
    """The entries of one of the segment's indexes, with absolute offsets."""
    try:
        with open_index(segment, suffix) as file:
            return _read(IndexFile(file, suffix), file.size, suffix, segment.base)
    except FileNotFoundError:  # which is no error: its entries are only hints
        return IndexEntries(Rows(), [], False, {})


def _read(index: IndexFile, size: int, suffix: str, base: int) -> IndexEntries:
    rows = Rows()
    faults = []
    if index.surplus:
        detail = f"{index.surplus} bytes after its entries"
        faults.append(FileFault(INDEX_LIE, suffix, size - index.surplus, base, base, -1, detail))
    disordered: dict[int, list[FileFault]] = {}
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
            why = "cannot come first" if before is None else f"cannot come behind {before}"
            fault = lie(suffix, slot, entry[at], f"{entry} {why}: out of order")
            disordered.setdefault(rows[-1][0] if rows else -1, []).append(fault)
    return IndexEntries(rows, faults, True, disordered)


def _offset_field(suffix: str) -> int:
    return 1 if suffix == TIME_INDEX_SUFFIX else 0


def _follows(suffix: str, before: tuple[int, int] | None, entry: tuple[int, int], base: int) -> bool:
    """Offsets and positions, and timestamps, strictly increase; a time index may repeat an offset (section 11)."""
    if not base <= entry[_offset_field(suffix)] <= MAX_LONG or (suffix == INDEX_SUFFIX and entry[1] < 0):
        return False
    if before is None:
        return True
    if before[0] >= entry[0]:
        return False
    return suffix == DIGEST_SUFFIX or before[1] < entry[1] or (suffix == TIME_INDEX_SUFFIX and before[1] == entry[1])


def lie(suffix: str, slot: int, offset: int, detail: str) -> FileFault:
    """An entry for `offset` that cannot be right."""
    return FileFault(INDEX_LIE, suffix, slot * LAYOUTS[suffix].size, offset, offset, -1, f"entry {slot}: {detail}")


@contextmanager
def open_index(segment: ReplicaSegment, suffix: str) -> Iterator[SegmentFile]:
    """One of the segment's index files (10 MiB by default), which one may hold in memory."""
    with segment.open(suffix) as file:
        if file.size > MAX_INDEX_BYTES:
            raise OSError(f"{suffix} has {file.size} bytes, more than an index of one segment can need")
        yield file


def last_indexed(segment: ReplicaSegment, log: LogFile, below: int = MAX_LONG) -> int:
    """Where the last batch begins of which the offset index tells the truth, of those that end below an offset; 0 if
    there is none.

    An entry may be for an append of several batches, and have the first one's position (SG-2).
    """
    for offset, position in entries_from_end(segment):
        if offset >= below:
            continue
        try:
            header = log.header(position)
        except CorruptRecord:
            continue
        if segment.base <= header.base_offset and header.last_offset <= offset:
            return position
    return 0


def entries_from_end(segment: ReplicaSegment) -> Iterator[tuple[int, int]]:
    """Offsets and positions of the offset index, the last entry first, whether they tell the truth or not.

    Costs what is taken of it. Of an entry that points at the segment's beginning nothing can be learnt: it is left out,
    as unused slots are (IX-2).
    """
    layout = LAYOUTS[INDEX_SUFFIX]
    try:
        with open_index(segment, INDEX_SUFFIX) as file:
            end, size = file.size // layout.size * layout.size, FIRST_ENTRIES
            while end > 0:
                start = max(0, end - size)
                piece = file.read(start, end - start)
                used = layout.iter_unpack(piece[: used_slots(piece, layout) * layout.size])
                for relative, position in reversed(list(used)):
                    if relative >= 0 and position > 0:
                        yield segment.base + relative, position
                end, size = start, min(2 * size, MOST_ENTRIES)
    except FileNotFoundError:
        return
