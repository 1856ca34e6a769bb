"""Walks over one segment's files: what is sound comes out as headers, what is not as `Damage` or `Fault`.

Reads in windows of bounded size, so that memory stays small.
"""

import errno
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from struct import Struct
from typing import NamedTuple, TypeVar, overload

from crc32c import crc32c

from replog.config import MAX_LONG
from replog.log.batch import CRC_START, HEADER_SIZE, BatchHeader, parse_header
from replog.log.errors import CorruptRecord
from replog.log.files import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX
from replog.log.index import OffsetIndex
from spark_jobs.replicas.files import MAX_HEADERS, Segment, SegmentFile, Vanished

WINDOW = 1 << 20
FIRST_HEADERS = 16  # read by a walk at once, then twice as many, and so on
MAX_INDEX_BYTES = 64 << 20  # of one file: what it takes to walk a segment is in memory
FIRST_ENTRIES = 4096  # bytes of an index read from its end at once, then twice as many, and so on
MAX_FAULTS = 100  # listed of each class and segment, or part of one: enough to see what happened

BIT_ROT = "BIT_ROT"
GAP = "GAP"
INDEX_LIE = "INDEX_LIE"

REPEATED = "offsets that come twice"  # how the detail of such a GAP begins: nothing is missing


class Fault(NamedTuple):
    """Something wrong in one replica's own files: offsets it concerns, where, and what was seen."""

    fault: str
    file: str  # suffix of the segment's file, or the name of a checkpoint
    position: int
    first: int
    last: int
    epoch: int
    detail: str


class CutShort(CorruptRecord):
    """The file ends before the batch does."""


@dataclass(frozen=True)
class Damage:
    """No batch could be read at `position`; the next one begins at `resume`, or None if none was found."""

    position: int
    resume: int | None
    reason: str
    cut_short: bool = False  # a batch may begin here, but the file ends before it does


Landmarks = Sequence[tuple[int, int, int]]  # slot, offset and position of entries of an offset index
Step = tuple[int, BatchHeader] | Damage
_position = itemgetter(2)


class LogFile:
    """Bounded reads of a `.log` file below the size that it had when it was opened.

    With a window of `HEADER_SIZE` nothing but headers is read. Raises Vanished where the file has become shorter.
    """

    def __init__(self, file: SegmentFile, window: int = WINDOW) -> None:
        self._file = file
        self.size = file.size
        self._window_size = window
        self._start = 0
        self._window = b""
        self._headers: dict[int, BatchHeader] = {}  # that were read in advance

    def header(self, position: int) -> BatchHeader:
        """The header at `position`. Raises CorruptRecord if there is none that can be right, whole batch included."""
        if position + HEADER_SIZE > self.size:
            raise CutShort(f"{self.size - position} bytes are too few for a batch header")
        header = self._headers.get(position)
        if header is None:
            start = position - self._start
            if start < 0 or start + HEADER_SIZE > len(self._window):
                self._read(position, min(self._window_size, self.size - position))
                start = 0
            header = parse_header(self._window, start)
        if position + header.size > self.size:
            raise CutShort(f"batch of {header.size} bytes ends {position + header.size - self.size} past the file")
        return header

    def expect(self, positions: Sequence[int]) -> None:
        """Read the headers at these positions, `MAX_HEADERS` at most, in one go: they are asked for next."""
        self._headers = dict(self._file.headers_at([at for at in positions if at + HEADER_SIZE <= self.size]))

    def crc(self, position: int, header: BatchHeader) -> int:
        """CRC-32C of the stored bytes, however large the header says the batch is."""
        at, end, crc = position + CRC_START, position + header.size, 0
        start = at - self._start
        if start >= 0 and end - self._start <= len(self._window):
            return int(crc32c(memoryview(self._window)[start : end - self._start]))
        while at < end:
            self._read(at, min(WINDOW, end - at))
            crc = crc32c(self._window, crc)
            at += len(self._window)
        return int(crc)

    def read(self, position: int, size: int) -> bytes:
        """All of a batch, which `crc` has found sound, so that its size is no lie."""
        start = position - self._start
        if start < 0 or start + size > len(self._window):
            return self._file.read(position, size)
        return self._window[start : start + size]

    def walk(self, position: int, landmarks: Landmarks, end: int | None = None) -> Iterator[Step]:
        """Position and header of each whole batch from `position` on, up to the one that begins at `end`.

        `landmarks` are entries of the offset index. Where no batch can be read, a `Damage`; then the walk goes on at
        the next landmark at which a batch begins that may have its offset. No batch is believed that would cover such
        a landmark, so that a walk comes by every one of them, wherever it began and whatever it met before.
        """
        end = self.size if end is None else end
        following, count = bisect_left(landmarks, position, key=_position), FIRST_HEADERS
        while position < end:
            if self._window_size == HEADER_SIZE and position not in self._headers:
                self._headers = dict(self._file.headers(position, count))
                count = min(2 * count, MAX_HEADERS)
            while following < len(landmarks) and landmarks[following][2] <= position:
                following += 1
            try:
                header = self.header(position)
                self._covers_none(position, header, landmarks, following)
            except CorruptRecord as error:
                later = range(following, len(landmarks))
                resume = next((landmarks[slot][2] for slot in later if self.is_landmark(landmarks[slot])), None)
                yield Damage(position, resume, error.message, isinstance(error, CutShort))
                if resume is None:
                    return
                position = resume
                continue
            yield position, header
            position += header.size

    def _covers_none(self, position: int, header: BatchHeader, landmarks: Landmarks, slot: int) -> None:
        while slot < len(landmarks) and landmarks[slot][2] < position + header.size:
            if self.is_landmark(landmarks[slot]):
                raise CorruptRecord(f"batch of {header.size} bytes runs into the one at {landmarks[slot][2]}")
            slot += 1

    def is_landmark(self, entry: tuple[int, int, int]) -> bool:
        """Whether a batch begins where the entry of the offset index says, with offsets that fit."""
        try:
            return self.header(entry[2]).base_offset <= entry[1]
        except CorruptRecord:
            return False

    def is_batch(self, position: int) -> bool:
        try:
            self.header(position)
        except CorruptRecord:
            return False
        return True

    def _read(self, position: int, size: int) -> None:
        self._window, self._start = self._file.read(position, size), position
        if len(self._window) < size:
            raise Vanished(f"{size} bytes at {position} became {len(self._window)}: the log was cut")


@contextmanager
def open_log(segment: Segment, window: int = WINDOW) -> Iterator[LogFile]:
    with segment.open(LOG_SUFFIX) as file:
        yield LogFile(file, window)


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


def read_index_file(segment: Segment, suffix: str) -> bytes | None:
    """A whole index file (10 MiB by default); None if it is missing, which is no error: its entries are only hints."""
    try:
        with segment.open(suffix) as file:
            return file.read(0, _index_size(file, suffix))
    except FileNotFoundError:
        return None


def _index_size(file: SegmentFile, suffix: str) -> int:
    if file.size > MAX_INDEX_BYTES:
        raise OSError(errno.EFBIG, f"{file.size} bytes are more than an index of one segment can need", suffix)
    return file.size


def read_entries(segment: Segment, suffix: str, layout: Struct, offset_field: int) -> Entries:
    """The entries of an index file. Offsets come back absolute.

    Zero entries at the end are unused slots of a preallocated file (IX-2).
    """
    base = segment.base
    rows = Rows()
    raw = read_index_file(segment, suffix)
    if raw is None:
        return Entries(rows, [], False, {})
    faults = []
    if surplus := len(raw) % layout.size:
        faults.append(
            Fault(INDEX_LIE, suffix, len(raw) - surplus, base, base, -1, f"{surplus} bytes after its entries")
        )
    used = -(-len(raw[: len(raw) - surplus].rstrip(b"\0")) // layout.size) * layout.size
    disordered: dict[int, list[Fault]] = {}
    left = MAX_FAULTS
    before: tuple[int, int] | None = None
    for slot, fields in enumerate(layout.iter_unpack(memoryview(raw)[:used])):
        entry = (fields[0] + base, fields[1]) if offset_field == 0 else (fields[0], fields[1] + base)
        if not _follows(before, entry, offset_field, base, both=suffix != DIGEST_SUFFIX):
            if left:
                left -= 1
                offset = entry[offset_field]
                detail = f"entry {slot} is {entry}, the one before it {before}: out of order"
                fault = Fault(INDEX_LIE, suffix, slot * layout.size, offset, offset, -1, detail)
                disordered.setdefault(rows[-1][0] if rows else -1, []).append(fault)
            continue
        before = entry
        rows.append((slot, *entry))
    return Entries(rows, faults, True, disordered)


def _follows(
    before: tuple[int, ...] | None, entry: tuple[int, int], offset_field: int, base: int, *, both: bool
) -> bool:
    """Offsets and positions, and timestamps, strictly increase; a time index may repeat an offset (section 11)."""
    if not base <= entry[offset_field] <= MAX_LONG or (both and offset_field == 0 and entry[1] < 0):
        return False
    if before is None:
        return True
    if offset_field == 1:
        return before[0] < entry[0] and before[1] <= entry[1]
    return before[0] < entry[0] and (not both or before[1] < entry[1])


def entries_from_end(segment: Segment) -> Iterator[tuple[int, int]]:
    """Offsets and positions of the offset index, the last entry first, whether they tell the truth or not.

    Costs what is taken of it. Of an entry that points at the segment's beginning nothing can be learnt: it is left out,
    as unused slots are (IX-2).
    """
    layout = OffsetIndex.layout
    try:
        with segment.open(INDEX_SUFFIX) as file:
            end, size = _index_size(file, INDEX_SUFFIX) // layout.size * layout.size, FIRST_ENTRIES
            while end > 0:
                start = max(0, end - size)
                raw = file.read(start, end - start)
                raw = raw[: -(-len(raw.rstrip(b"\0")) // layout.size) * layout.size]
                for relative, position in reversed(list(layout.iter_unpack(raw))):
                    if relative >= 0 and position > 0:
                        yield segment.base + relative, position
                end, size = start, min(2 * size, WINDOW)
    except FileNotFoundError:
        return


Item = TypeVar("Item")


def capped(items: Iterator[Item | Fault]) -> Iterator[Item | Fault]:
    """`items` with no more than `MAX_FAULTS` faults of a class; the last one says that there may be more."""
    counts: dict[str, int] = {}
    for item in items:
        if isinstance(item, Fault):
            seen = counts[item.fault] = counts.get(item.fault, 0) + 1
            if seen > MAX_FAULTS:
                continue
            if seen == MAX_FAULTS:
                yield item._replace(detail=f"{item.detail} (there may be more: this is the last that is listed here)")
                continue
        yield item
