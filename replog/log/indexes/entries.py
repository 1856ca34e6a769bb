"""Reads the entries of an unchecked index file as a stream, so that a large file costs no memory."""

from array import array
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import overload

from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from replog.log.formats.segment_file import SegmentFile
from replog.log.indexes.index import DigestIndex, OffsetIndex, TimeIndex
from replog.log.indexes.transaction_index import TransactionIndex

LAYOUTS = {
    INDEX_SUFFIX: OffsetIndex.layout,
    TIME_INDEX_SUFFIX: TimeIndex.layout,
    DIGEST_SUFFIX: DigestIndex.layout,
    TRANSACTION_INDEX_SUFFIX: TransactionIndex.layout,
}
WINDOW = 1 << 20  # about the bytes of one read


class IndexFile:
    """The entries that were there when it was opened, up to the unused slots of a preallocated end (IX-2).

    No byte is read twice, if the entries are read once."""

    def __init__(self, file: SegmentFile, suffix: str) -> None:
        self._file = file
        self.layout = LAYOUTS[suffix]
        slots, self.surplus = divmod(file.size, self.layout.size)  # bytes after the last whole entry
        self._last = b"", 0  # the last piece that has entries, and its position
        self.count = self._used(slots)
        self.unused = slots - self.count

    @property
    def is_doubtful(self) -> bool:
        """True for a single slot of zeros: it is an entry for timestamp 0 at the first offset, or unused."""
        return self.count == 1 and not any(self._last[0])

    def _used(self, slots: int) -> int:
        """Count the entries before trailing zeros; a single slot counts as one."""
        size = self.layout.size
        end = slots * size
        while end > 0:
            start = max(0, end - WINDOW // size * size)
            piece = self._file.read(start, end - start)
            if used := slots if slots == 1 else used_slots(piece, self.layout):
                self._last = piece[: used * size], start
                return start // size + used
            end = start
        return 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the entries; the file may be cut meanwhile."""
        last, end = self._last
        size = self.layout.size
        for start in range(0, end, WINDOW // size * size):
            piece = self._file.read(start, min(WINDOW // size * size, end - start))
            yield piece[: len(piece) // size * size]
        yield last[: len(last) // size * size]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield the fields of every entry, as stored."""
        for piece in self.pieces():
            yield from self.layout.iter_unpack(piece)


def used_slots(piece: bytes, layout: Struct) -> int:
    """Count the whole entries before the zeros that `piece` ends with."""
    whole = len(piece) // layout.size * layout.size
    return -(-len(piece[:whole].rstrip(b"\0")) // layout.size)


class Rows(Sequence[tuple[int, int, int]]):
    """Slot, first and second field of index entries, without an object for each of the many that there may be."""

    def __init__(self, columns: "tuple[array[int], array[int], array[int]] | None" = None) -> None:
        self.columns = columns or (array("q"), array("q"), array("Q"))

    def append(self, row: tuple[int, int, int]) -> None:
        for column, value in zip(self.columns, row, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, at: int) -> tuple[int, int, int]: ...

    @overload
    def __getitem__(self, at: slice) -> "Rows": ...

    def __getitem__(self, at: int | slice) -> "tuple[int, int, int] | Rows":
        slots, firsts, seconds = self.columns
        if isinstance(at, slice):
            return Rows((slots[at], firsts[at], seconds[at]))
        return slots[at], firsts[at], seconds[at]

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(*self.columns, strict=True)
