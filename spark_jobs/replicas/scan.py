"""Walks over one segment's files: what is sound comes out as headers, what is not as `Damage` or `Fault`.

Reads in windows of bounded size, so that memory stays small.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple, TypeVar

from crc32c import crc32c

from replog.log.batch import CRC_START, HEADER_SIZE, BatchHeader, parse_header
from replog.log.errors import CorruptRecord
from replog.log.files import LOG_SUFFIX
from spark_jobs.replicas.files import Segment, SegmentFile

WINDOW = 1 << 20
MAX_FAULTS = 100  # listed of each segment and class: enough to see what happened, few enough for the driver

BIT_ROT = "BIT_ROT"
GAP = "GAP"
INDEX_LIE = "INDEX_LIE"


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


class LogFile:
    """Windowed reads of a `.log` file below the size that it had when it was opened."""

    def __init__(self, file: SegmentFile, window: int = WINDOW) -> None:
        self._file = file
        self.size = file.size
        self._window_size = window
        self._start = 0
        self._window = b""

    def header(self, position: int) -> BatchHeader:
        """The header at `position`. Raises CorruptRecord if there is none that can be right, whole batch included."""
        if position + HEADER_SIZE > self.size:
            raise CutShort(f"{self.size - position} bytes are too few for a batch header")
        start = position - self._start
        if start < 0 or start + HEADER_SIZE > len(self._window):
            self._window = self._file.read(position, min(self._window_size, self.size - position))
            self._start, start = position, 0
        header = parse_header(self._window, start)
        if position + header.size > self.size:
            raise CutShort(f"batch of {header.size} bytes ends {position + header.size - self.size} past the file")
        return header

    def crc(self, position: int, header: BatchHeader) -> int:
        """CRC-32C of the stored bytes, however large the header says the batch is."""
        at, end, crc = position + CRC_START, position + header.size, 0
        start = at - self._start
        if start >= 0 and end - self._start <= len(self._window):
            return int(crc32c(memoryview(self._window)[start : end - self._start]))
        while at < end:
            self._window = self._file.read(at, min(self._window_size, end - at))
            self._start = at
            if not self._window:
                break
            crc = crc32c(self._window, crc)
            at += len(self._window)
        return int(crc)

    def walk(self, position: int, resync: list[int]) -> Iterator[tuple[int, BatchHeader] | Damage]:
        """Position and header of each whole batch from `position` on.

        Where no batch can be read, a `Damage`; then the walk goes on at the next of `resync`, ascending positions at
        which batches are believed to begin, that does begin one.
        """
        following = iter(resync)
        while position < self.size:
            try:
                header = self.header(position)
            except CorruptRecord as error:
                resume = next((at for at in following if at > position and self.is_batch(at)), None)
                yield Damage(position, resume, error.message, isinstance(error, CutShort))
                if resume is None:
                    return
                position = resume
                continue
            yield position, header
            position += header.size

    def is_batch(self, position: int) -> bool:
        try:
            self.header(position)
        except CorruptRecord:
            return False
        return True


@contextmanager
def open_log(segment: Segment, window: int = WINDOW) -> Iterator[LogFile]:
    with segment.open(LOG_SUFFIX) as file:
        yield LogFile(file, window)


class Entries(NamedTuple):
    """The entries of an index file that are in order, with their slots, and faults for those that are not."""

    rows: list[tuple[int, int, int]]  # slot, first field, second field
    faults: list[Fault]
    present: bool


def read_entries(segment: Segment, suffix: str, layout: Struct, offset_field: int) -> Entries:
    """Read a whole index file (10 MiB by default); a missing one is not an error (its entries are only hints).

    Offsets come back absolute. Zero entries at the end are unused slots of a preallocated file (IX-2).
    """
    base = segment.base
    try:
        with segment.open(suffix) as file:
            raw = file.read(0, file.size)
    except FileNotFoundError:
        return Entries([], [], present=False)
    faults = []
    if surplus := len(raw) % layout.size:
        faults.append(
            Fault(INDEX_LIE, suffix, len(raw) - surplus, base, base, -1, f"{surplus} bytes after its entries")
        )
    stored = list(layout.iter_unpack(raw[: len(raw) - surplus]))
    while stored and stored[-1] == (0, 0):
        stored.pop()
    rows: list[tuple[int, int, int]] = []
    for slot, fields in enumerate(stored):
        entry = (fields[0] + base, fields[1]) if offset_field == 0 else (fields[0], fields[1] + base)
        if not _follows(rows[-1][1:] if rows else None, entry, offset_field, base, both=suffix != ".digest"):
            if len(faults) < MAX_FAULTS:
                offset = entry[offset_field]
                detail = f"entry {slot} is {entry}, the one before it {rows[-1][1:] if rows else None}: out of order"
                faults.append(Fault(INDEX_LIE, suffix, slot * layout.size, offset, offset, -1, detail))
            continue
        rows.append((slot, *entry))
    return Entries(rows, faults, present=True)


def _follows(
    before: tuple[int, ...] | None, entry: tuple[int, int], offset_field: int, base: int, *, both: bool
) -> bool:
    """Offsets and positions, and timestamps, strictly increase; a time index may repeat an offset (section 11)."""
    if entry[offset_field] < base or (both and offset_field == 0 and entry[1] < 0):
        return False
    if before is None:
        return True
    if offset_field == 1:
        return before[0] < entry[0] and before[1] <= entry[1]
    return before[0] < entry[0] and (not both or before[1] < entry[1])


Item = TypeVar("Item")


def capped(items: Iterator[Item | Fault]) -> Iterator[Item | Fault]:
    """`items` with no more than `MAX_FAULTS` faults of a class; the last one says that there are more."""
    counts: dict[str, int] = {}
    for item in items:
        if isinstance(item, Fault):
            seen = counts[item.fault] = counts.get(item.fault, 0) + 1
            if seen > MAX_FAULTS:
                continue
            if seen == MAX_FAULTS:
                yield item._replace(detail=f"{item.detail} (only the first {MAX_FAULTS} of the segment are listed)")
                continue
        yield item
