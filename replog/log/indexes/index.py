"""The base of the indexes of offsets, timestamps and digests: entries that are looked up, and cut, by offset."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from replog.log.errors import CorruptIndex, IndexOffsetOverflow, InvalidIndexOffset
from replog.log.indexes.entry_file import EntryFile
from replog.log.offsets import Buffer

WARM_BYTES = 8192  # IX-17
MAX_RELATIVE_OFFSET = 2**31 - 1

Unpack = Callable[[Buffer, int], tuple[int, ...]]


class Index(EntryFile):
    """Entries of one file. A subclass sets their layout, that of each field alone, and which field is the offset."""

    fields: ClassVar[tuple[Unpack, ...]]
    offset_field: ClassVar[int]

    def __init__(self, path: Path | str, base_offset: int, *, new: bool = False) -> None:
        super().__init__(path, base_offset, new=new)
        self.warm = WARM_BYTES // self.layout.size  # entries
        self._last: tuple[int, ...] | None = None  # the last entry's fields, once they were asked for

    def entry(self, slot: int) -> tuple[int, ...]:
        """Return the fields as stored."""
        return self.layout.unpack(self._read(slot, slot + 1))

    def offset_at(self, slot: int) -> int:
        return self.entry(slot)[self.offset_field] + self.base_offset

    @property
    def last_offset(self) -> int | None:
        return self._last_entry()[self.offset_field] + self.base_offset if self.count else None

    def truncate_to(self, offset: int) -> None:
        """Keep the entries with offsets below `offset` (IX-13, IX-16), in the file too."""
        self._keep(self.slot_up_to(offset - 1) + 1)

    def slot_up_to(self, offset: int) -> int:
        """Return the last slot with an offset of at most `offset`, or -1."""
        return self._search(offset - self.base_offset, self.offset_field)

    def reset(self) -> None:
        """Drop all entries, and anything else in the file, which exists afterwards."""
        self.close()
        self._create()
        self.count = self.surplus = 0

    def close(self) -> None:
        self._last = None
        super().close()

    def check_shape(self) -> None:
        """Raise CorruptIndex unless whole entries fill the file and the last two are in order (IX-13, IX-16)."""
        if self.missing:
            raise CorruptIndex(f"{self.path} is missing")
        self.check_whole()
        if self.count and not 0 <= self.offset_at(self.count - 1) - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise CorruptIndex(f"{self.path}: last offset {self.last_offset} is no offset of its segment")
        if self.count > 1 and not self._in_order(self.entry(self.count - 2), self.entry(self.count - 1)):
            raise CorruptIndex(f"{self.path}: the last of {self.count} entries does not follow the one before it")

    @staticmethod
    def _in_order(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        raise NotImplementedError

    def forget_last(self, count: int) -> None:
        self._last = None
        super().forget_last(count)

    def _last_entry(self) -> tuple[int, ...]:
        """Return the fields of the last entry; there is one."""
        if self._last is None:
            self._last = self.entry(self.count - 1)
        return self._last

    def _add_fields(self, *fields: int) -> None:
        self._add(self.layout.pack(*fields))
        self._last = fields

    def _keep(self, count: int) -> None:
        self._last = None
        super()._keep(count)

    def _overflow(self, offset: int) -> IndexOffsetOverflow:
        """Return the error: offsets are relative to the segment's base, in 31 bits (IX-4)."""
        return IndexOffsetOverflow(f"offset {offset} does not fit the segment that begins at {self.base_offset}")

    def _search(self, target: int, field: int) -> int:
        """Return the last slot whose `field` is at most `target`, or -1. Search the warm end of the file first (IX-17),
        with one read (IX-18); then the rest, entry by entry until one read brings all that is left."""
        if self.count == 0:
            return -1
        unpack, size = self.fields[field], self.layout.size
        high = self.count - 1
        low = first = max(0, high - self.warm)
        data = self._read(first, self.count)
        if unpack(data, 0)[0] >= target:
            low, high, data = 0, low, b""
            if unpack(self._read(0, 1), 0)[0] > target:
                return -1
        while low < high:
            if not data and high - low < self.warm:
                first, data = low, self._read(low, high + 1)
            middle = (low + high + 1) >> 1
            (value,) = unpack(data, (middle - first) * size) if data else unpack(self._read(middle, middle + 1), 0)
            if value > target:
                high = middle - 1
            elif value < target:
                low = middle
            else:
                return middle
        return low


class OffsetFirstIndex(Index):
    """Entries of an offset, in 4 bytes, and one value after it."""

    offset_field = 0

    def append(self, offset: int, value: int) -> None:
        """Add an entry (IX-10). Raises InvalidIndexOffset unless `offset` is above the last one."""
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise self._overflow(offset)
        if self.count and relative <= (self._last or self._last_entry())[0]:
            raise InvalidIndexOffset(f"{self.path}: offset {offset} is not above the last one, {self.last_offset}")
        self._add_fields(relative, value)
