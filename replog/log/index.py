"""Three of the indexes of a segment: offsets, timestamps and digests.

Entries are written behind the log by plain writes, never preallocated and never through a mapping, so a file holds
its entries and nothing else, a crash leaves no zeros, and a full disk raises an error instead of a bus error. The
newest entries, which nearly every lookup wants (IX-18), are in memory from the first use on; older ones are mapped when
they are first asked for.
"""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import ClassVar, NamedTuple

from replog.log.entry_file import EntryFile
from replog.log.errors import CorruptIndex, IndexOffsetOverflow, InvalidIndexOffset
from replog.log.files import read_exactly, write_exactly
from replog.log.offsets import Buffer

WARM_BYTES = 8192  # IX-17
MAX_RELATIVE_OFFSET = 2**31 - 1

Unpack = Callable[[Buffer | mmap.mmap, int], tuple[int, ...]]


class OffsetPosition(NamedTuple):
    """The last offset of a batch, and the position of its first byte."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """Every record with a greater timestamp has a greater offset (3.3)."""

    timestamp: int
    offset: int


class DigestEntry(NamedTuple):
    """The digest of all batches of the segment whose last offset is at most `offset`."""

    offset: int
    digest: int


class Index(EntryFile):
    """Entries of one file. Each kind names its layout, also for each field alone, and which one is the offset's."""

    fields: ClassVar[tuple[Unpack, ...]]
    offset_field: ClassVar[int]

    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, base_offset)
        self.warm = WARM_BYTES // self.layout.size  # entries
        self._written = self.count
        self._tail: bytearray | None = None  # the entries from `_tail_start` on, once they are used
        self._tail_start = 0
        self._map: mmap.mmap | None = None
        self._mapped = 0  # entries

    def entry(self, slot: int) -> tuple[int, ...]:
        """The fields as stored."""
        data, start = self._holding(slot, slot)
        return self.layout.unpack_from(data, (slot - start) * self.layout.size)

    def offset_at(self, slot: int) -> int:
        return self.entry(slot)[self.offset_field] + self.base_offset

    @property
    def last_offset(self) -> int | None:
        """The offset of the last entry; None if there is none."""
        last = self._last()
        return None if last is None else last[self.offset_field] + self.base_offset

    def write(self) -> None:
        """Hand new entries to the operating system."""
        if self._written == self.count:
            return
        size, tail = self.layout.size, self._loaded()
        write_exactly(self._open(), tail[(self._written - self._tail_start) * size :], self._written * size)
        self._written = self.count
        older = self.count - self._tail_start - self.warm - 1
        if older > self.warm:
            del tail[: older * size]
            self._tail_start += older

    def truncate_to(self, offset: int) -> None:
        """Keep the entries with offsets below `offset` (IX-13, IX-16), in the file too."""
        self._keep(self.slot_up_to(offset - 1) + 1)

    def slot_up_to(self, offset: int) -> int:
        """The last slot with an offset of at most `offset`, or -1."""
        return self._search(offset - self.base_offset, self.offset_field)

    def reset(self) -> None:
        """Drop all entries, and whatever else the file holds; it exists afterwards."""
        self._open()
        self._keep(0)

    def flush(self) -> None:
        """fsync."""
        os.fsync(self._open())

    def close(self) -> None:
        """Let go of the file and of memory; entries not written are lost. Later lookups read the file again."""
        self.count = self._written
        self._tail = None
        self._unmap()
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

    def _last(self) -> tuple[int, ...] | None:
        """The fields of the last entry."""
        tail = self._tail if self._tail is not None else self._loaded()
        return self.layout.unpack_from(tail, len(tail) - self.layout.size) if tail else None

    def _overflow(self, offset: int) -> IndexOffsetOverflow:
        """Offsets are relative to the segment's base, in 31 bits (IX-4)."""
        return IndexOffsetOverflow(f"offset {offset} does not fit the segment that begins at {self.base_offset}")

    def _search(self, target: int, field: int) -> int:
        """The last slot whose `field` is at most `target`, or -1 (IX-17: the warm end of the file first)."""
        if self.count == 0:
            return -1
        unpack, size = self.fields[field], self.layout.size
        high = self.count - 1
        low = max(0, high - self.warm)
        data, start = self._holding(low, high)
        if unpack(data, (low - start) * size)[0] >= target:
            low, high = 0, low
            data, start = self._holding(0, high)
            if unpack(data, 0)[0] > target:
                return -1
        low -= start  # from here on they count from the beginning of `data`
        high -= start
        while low < high:
            middle = (low + high + 1) >> 1
            (found,) = unpack(data, middle * size)
            if found > target:
                high = middle - 1
            elif found < target:
                low = middle
            else:
                return middle + start
        return low + start

    def _keep(self, count: int) -> None:
        """Cut the file behind the first `count` entries."""
        if count == self.count and not self.surplus:
            return
        self.write()
        os.ftruncate(self._open(), count * self.layout.size)
        self.count = self._written = count
        self.surplus = 0
        self._tail = None
        self._unmap()

    def _holding(self, first: int, last: int) -> tuple[Buffer | mmap.mmap, int]:
        """Bytes that hold all entries from slot `first` to `last`, and the slot that they begin with."""
        tail = self._tail if self._tail is not None else self._loaded()
        if first >= self._tail_start:
            return tail, self._tail_start
        if self._map is None or last >= self._mapped:
            self._unmap()
            self.write()
            with self.path.open("rb", buffering=0) as file:
                try:
                    self._map = mmap.mmap(file.fileno(), self.count * self.layout.size, prot=mmap.PROT_READ)
                except ValueError:
                    raise CorruptIndex(f"{self.path} has lost some of its {self.count} entries") from None
            self._mapped = self.count
        return self._map, 0

    def _loaded(self) -> bytearray:
        """The end of the file, at least its warm section: three pages (IX-18). CorruptIndex if it is not there."""
        if self._tail is None:
            size = self.layout.size
            first = max(0, self.count - 1 - self.warm)
            tail = bytearray()
            if self.count:
                fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    tail += read_exactly(fd, first * size, (self.count - first) * size)
                finally:
                    os.close(fd)
            if len(tail) < (self.count - first) * size:
                raise CorruptIndex(f"{self.path} has lost some of its {self.count} entries")
            self._tail, self._tail_start = tail, first
        return self._tail

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None


class OffsetFirstIndex(Index):
    """Entries that begin with their offset, in 4 bytes, and go on with one value."""

    offset_field = 0

    def append(self, offset: int, value: int) -> None:
        """Add an entry (IX-10). Raises InvalidIndexOffset unless `offset` is above the last one."""
        layout, relative = self.layout, offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise self._overflow(offset)
        tail = self._tail if self._tail is not None else self._loaded()
        if tail and relative <= layout.unpack_from(tail, len(tail) - layout.size)[0]:
            raise InvalidIndexOffset(f"{self.path}: offset {offset} is not above the last one, {self.last_offset}")
        tail += layout.pack(relative, value)
        self.count += 1


class OffsetIndex(OffsetFirstIndex):
    """`.index`: last offset of a batch → its position in the log (3.2)."""

    layout = Struct(">ii")
    fields = (Struct(">i").unpack_from, Struct(">4xi").unpack_from)

    def lookup(self, offset: int) -> OffsetPosition:
        """The entry with the greatest offset up to `offset`, or the segment's beginning (IX-11)."""
        slot = self._search(offset - self.base_offset, 0)
        return self.get(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def fetch_upper_bound(self, start_position: int, size: int) -> OffsetPosition | None:
        """The first entry positioned at or after the end of these bytes, or None (IX-12)."""
        end = start_position + size
        slot = self._search(end, 1)
        if slot < 0 or self.entry(slot)[1] < end:
            slot += 1
        return self.get(slot) if slot < self.count else None

    def get(self, slot: int) -> OffsetPosition:
        relative, position = self.entry(slot)
        return OffsetPosition(relative + self.base_offset, position)

    @staticmethod
    def _in_order(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        return first[0] < second[0] and first[1] < second[1]


class TimeIndex(Index):
    """`.timeindex`: greatest timestamp so far → last offset of the first batch that has it (3.3)."""

    layout = Struct(">qi")
    fields = (Struct(">q").unpack_from, Struct(">8xi").unpack_from)
    offset_field = 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if `timestamp` is above the last one (IX-15). Raises InvalidIndexOffset if either goes back."""
        layout, relative = self.layout, offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise self._overflow(offset)
        tail = self._tail if self._tail is not None else self._loaded()
        last_timestamp, last_relative = layout.unpack_from(tail, len(tail) - layout.size) if tail else (-1, 0)
        if tail and (relative < last_relative or timestamp < last_timestamp):
            raise InvalidIndexOffset(f"{self.path}: ⟨{timestamp}, {offset}⟩ goes back from {self.get(self.count - 1)}")
        if timestamp > last_timestamp:
            tail += layout.pack(timestamp, relative)
            self.count += 1

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry up to `timestamp`, or (-1, base offset) (IX-16)."""
        slot = self._search(timestamp, 0)
        return self.get(slot) if slot >= 0 else TimestampOffset(-1, self.base_offset)

    def get(self, slot: int) -> TimestampOffset:
        timestamp, relative = self.entry(slot)
        return TimestampOffset(timestamp, relative + self.base_offset)

    @staticmethod
    def _in_order(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        return first[0] < second[0] and first[1] <= second[1]


class DigestIndex(OffsetFirstIndex):
    """`.digest`: last offset of a batch → sum of the hashes of all batches up to it (`digest` module)."""

    layout = Struct(">IQ")
    fields = (Struct(">I").unpack_from, Struct(">4xQ").unpack_from)

    def lookup(self, offset: int) -> DigestEntry:
        """The entry with the greatest offset up to `offset`, or (base offset - 1, 0): nothing summed yet."""
        slot = self._search(offset - self.base_offset, 0)
        return self.get(slot) if slot >= 0 else DigestEntry(self.base_offset - 1, 0)

    def get(self, slot: int) -> DigestEntry:
        relative, digest = self.entry(slot)
        return DigestEntry(relative + self.base_offset, digest)

    @staticmethod
    def _in_order(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        return first[0] < second[0]
