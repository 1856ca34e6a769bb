"""The index files of one segment: their entries, and what is wrong with them whatever the log holds."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from struct import Struct
from typing import NamedTuple, overload

from replog.log.errors import CorruptRecord
from replog.log.files import DIGEST_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.index import DigestIndex, OffsetIndex, TimeIndex
from replog.properties import MAX_LONG
from spark_jobs.replicas.faults import INDEX_LIE, MAX_FAULTS, Fault
from spark_jobs.replicas.files import Segment, SegmentFile
from spark_jobs.replicas.scan import LogFile

LAYOUTS = {
    INDEX_SUFFIX: OffsetIndex.layout,
    TIME_INDEX_SUFFIX: TimeIndex.layout,
    DIGEST_SUFFIX: DigestIndex.layout,
}
MAX_INDEX_BYTES = 64 << 20  # of one file: what it takes to walk a segment is in memory
FIRST_ENTRIES = 4096  # bytes of an index read from its end at once, then twice as many, and so on
MOST_ENTRIES = 1 << 20  # bytes, at most

_first = itemgetter(1)
_second = itemgetter(2)


class Rows(Sequence[tuple[int, int, int]]):
    """Slot, first and second field of index entries, without an object for each of the many that there may be."""

    def __init__(self, columns: "tuple[array[int], array[int], array[int]] | None" = None) -> None:
        self._columns = columns or (array("q"), array("q"), array("Q"))

    def append(self, row: tuple[int, int, int]) -> None:
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, at: int) -> tuple[int, int, int]: ...

    @overload
    def __getitem__(self, at: slice) -> "Rows": ...

    def __getitem__(self, at: int | slice) -> "tuple[int, int, int] | Rows":
        slots, firsts, seconds = self._columns
        if isinstance(at, slice):
            return Rows((slots[at], firsts[at], seconds[at]))
        return slots[at], firsts[at], seconds[at]

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(*self._columns, strict=True)


class Entries(NamedTuple):
    """The entries of an index file that are in order, with their slots, and what is wrong with its shape."""

    rows: Rows
    faults: list[Fault]
    present: bool
    disordered: dict[int, list[Fault]]  # those that do not follow the entry in a slot, `MAX_FAULTS` at most

    def out_of_order(self, lies: set[int], first: int = -1, end: int = MAX_LONG) -> Iterator[Fault]:
        """Faults of entries that are out of order, but for those behind an entry that is known to lie (a slot).

        Only of those behind an entry in a slot from `first` to `end`; -1 is what comes before the first entry.
        """
        found = (told for before, told in self.disordered.items() if first <= before < end and before not in lies)
        return chain.from_iterable(found)


class Indexes(NamedTuple):
    """The entries of a segment's indexes, in the order of `LAYOUTS`."""

    offsets: Entries
    times: Entries
    digests: Entries

    def shape_faults(self) -> Iterator[Fault]:
        for entries in self:
            yield from entries.faults

    @property
    def exact_to(self) -> int:
        """Up to this offset the entries are as replog writes them (`index_rules`); -1 if there are no digests."""
        return self.digests.rows[-1][1] if self.digests.rows else -1

    def alone(self, entries: Iterable[tuple[int, int, int]], doubtful: set[int]) -> Iterator[Fault]:
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


def read_indexes(segment: Segment) -> Indexes:
    """To be called before the log is opened: a live broker writes it first."""
    return Indexes(*(read_index(segment, suffix) for suffix in LAYOUTS))


def read_index(segment: Segment, suffix: str) -> Entries:
    """The entries of one of the segment's indexes, with absolute offsets."""
    base, layout = segment.base, LAYOUTS[suffix]
    rows = Rows()
    raw = read_index_file(segment, suffix)
    if raw is None:
        return Entries(rows, [], False, {})
    faults = []
    if surplus := len(raw) % layout.size:
        detail = f"{surplus} bytes after its entries"
        faults.append(Fault(INDEX_LIE, suffix, len(raw) - surplus, base, base, -1, detail))
    disordered: dict[int, list[Fault]] = {}
    left = MAX_FAULTS
    before: tuple[int, int] | None = None
    at = _offset_field(suffix)
    for slot, fields in enumerate(_used(raw, layout)):
        entry = (fields[0] + base, fields[1]) if at == 0 else (fields[0], fields[1] + base)
        if _follows(suffix, before, entry, base):
            before = entry
            rows.append((slot, *entry))
        elif left:
            left -= 1
            why = "cannot come first" if before is None else f"cannot come behind {before}"
            fault = lie(suffix, slot, entry[at], f"{entry} {why}: out of order")
            disordered.setdefault(rows[-1][0] if rows else -1, []).append(fault)
    return Entries(rows, faults, True, disordered)


def _used(raw: bytes, layout: Struct) -> Iterator[tuple[int, int]]:
    """Whole entries, up to the unused slots at the end of a preallocated file (IX-2)."""
    whole = len(raw) // layout.size * layout.size
    used = -(-len(raw[:whole].rstrip(b"\0")) // layout.size) * layout.size
    return layout.iter_unpack(memoryview(raw)[:used])


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


def lie(suffix: str, slot: int, offset: int, detail: str) -> Fault:
    """An entry for `offset` that cannot be right."""
    return Fault(INDEX_LIE, suffix, slot * LAYOUTS[suffix].size, offset, offset, -1, f"entry {slot}: {detail}")


def read_index_file(segment: Segment, suffix: str) -> bytes | None:
    """A whole index file (10 MiB by default); None if it is missing, which is no error: its entries are only hints."""
    try:
        with segment.open(suffix) as file:
            return file.read(0, _size(file, suffix))
    except FileNotFoundError:
        return None


def _size(file: SegmentFile, suffix: str) -> int:
    if file.size > MAX_INDEX_BYTES:
        raise OSError(f"{suffix} has {file.size} bytes, more than an index of one segment can need")
    return file.size


def last_indexed(segment: Segment, log: LogFile, below: int = MAX_LONG) -> int:
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


def entries_from_end(segment: Segment) -> Iterator[tuple[int, int]]:
    """Offsets and positions of the offset index, the last entry first, whether they tell the truth or not.

    Costs what is taken of it. Of an entry that points at the segment's beginning nothing can be learnt: it is left out,
    as unused slots are (IX-2).
    """
    layout = OffsetIndex.layout
    try:
        with segment.open(INDEX_SUFFIX) as file:
            end, size = _size(file, INDEX_SUFFIX) // layout.size * layout.size, FIRST_ENTRIES
            while end > 0:
                start = max(0, end - size)
                for relative, position in reversed(list(_used(file.read(start, end - start), layout))):
                    if relative >= 0 and position > 0:
                        yield segment.base + relative, position
                end, size = start, min(2 * size, MOST_ENTRIES)
    except FileNotFoundError:
        return
