"""The indexes of offsets (3.2), timestamps (3.3) and digests: entries that are looked up, and cut, by offset.

Their base, as of the transaction index, is a file of fixed-size big-endian entries in use order, without header (IX-1).
Entries are written behind the log by plain writes, never preallocated and never through a mapping, so a file holds its
entries and nothing else, a crash leaves no zeros, and a full disk raises an error instead of a bus error. In memory are
only those that are not written yet."""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import ClassVar, NamedTuple

from replog.log.errors import CorruptIndex, IndexOffsetOverflow, InvalidIndexOffset
from replog.log.files.filesystem import read_exactly
from replog.log.files.open_files import OpenFile
from replog.log.files.opening import open_regular
from replog.log.offsets import Buffer


class EntryFile:
    """Counts the entries of the file, none if it is missing; it is opened when first used (IX-2, IX-8).

    With `new` nobody looks for it: there is no such file."""

    layout: ClassVar[Struct]
    promised: ClassVar[bool] = False  # True if its write-back errors are noticed (`open_files`)

    def __init__(self, path: Path | str, base_offset: int, *, new: bool = False) -> None:
        self.file = OpenFile(path)
        self.base_offset = base_offset
        self.missing = new
        try:
            length = 0 if new else os.stat(path).st_size
        except FileNotFoundError:
            length, self.missing = 0, True
        self.count, self.surplus = divmod(length, self.layout.size)
        self.pending = bytearray()  # the last entries, if they are not written yet
        self.stale = False  # the file has other entries than the counted ones
        self._last: tuple[int, ...] | None = None  # the last entry's fields, once they were asked for

    @property
    def path(self) -> Path:
        return Path(self.file.path)

    def check_whole(self) -> None:
        """Raise CorruptIndex unless whole entries fill the file."""
        if self.surplus:
            raise CorruptIndex(f"{self.path} has {self.surplus} bytes after its last whole entry")

    def write(self) -> None:
        """Hand new entries to the operating system."""
        if self.stale:
            self._replace()
        if self.pending:
            if self.missing:
                self._create()
            position = self.count * self.layout.size - len(self.pending)
            self.file.write([self.pending], position, promised=self.promised)
            self.pending = bytearray()

    def flush(self) -> None:
        self.file.sync()

    def close(self) -> None:
        """Close the file; entries not written are lost. A look-up opens it again."""
        self._last = None
        self.count -= len(self.pending) // self.layout.size
        self.pending = bytearray()
        self.file.close()

    def start_over(self) -> None:
        """Drop all entries; the file keeps them until the next `write`, and for good if those written then are the
        same: a recovery finds most files as they should be."""
        self.close()
        self.count = self.surplus = 0
        self.stale = True

    def _replace(self) -> None:
        if self.missing:
            self._create()
        elif self.file.read(0, len(self.pending) + 1) == self.pending:
            self.pending = bytearray()
        else:
            self.file.truncate(0)
        self.stale = False

    def _create(self) -> None:
        self.missing = self.stale = False
        self.file.create()

    def entry(self, slot: int) -> tuple[int, ...]:
        return self.layout.unpack(self._read(slot, slot + 1))

    def _last_entry(self) -> tuple[int, ...]:
        """Return the fields of the last entry; there is one."""
        if self._last is None:
            self._last = self.entry(self.count - 1)
        return self._last

    def _add(self, *fields: int) -> None:
        self.pending += self.layout.pack(*fields)
        self.count += 1
        self._last = fields

    def _keep(self, count: int) -> None:
        """Cut the file behind the first `count` entries."""
        self._last = None
        if count == self.count and not self.surplus:
            return
        if self.stale:
            self.write()
        written, size = self.count - len(self.pending) // self.layout.size, self.layout.size
        del self.pending[max(count - written, 0) * size :]
        if not self.missing:
            self.file.truncate(min(count, written) * size)
        self.count = count
        self.surplus = 0

    def _read(self, first: int, end: int) -> bytes:
        """Read the entries from slot `first` on, up to `end`. CorruptIndex if they are not there any more."""
        size = self.layout.size
        written = self.count - len(self.pending) // size
        data = b""
        if first < written:
            wanted = (min(end, written) - first) * size
            data = bytes(self.file.read(first * size, wanted))
            if len(data) < wanted:
                raise CorruptIndex(f"{self.path} has lost some of its {self.count} entries")
        if end > written:
            data += self.pending[max(first - written, 0) * size : (end - written) * size]
        return data


WARM_BYTES = 8192  # IX-17
MAX_RELATIVE_OFFSET = 2**31 - 1

Unpack = Callable[[Buffer, int], tuple[int, ...]]


class Index(EntryFile):
    """Entries of one file. A subclass sets their layout, that of each field alone, and which field is the offset."""

    fields: ClassVar[tuple[Unpack, ...]]
    offset_field: ClassVar[int]
    rises: ClassVar[tuple[int, ...]]  # the least by which each field of an entry is above that of the one before

    def __init__(self, path: Path | str, base_offset: int, *, new: bool = False) -> None:
        super().__init__(path, base_offset, new=new)
        self.warm = WARM_BYTES // self.layout.size  # entries

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

    def check_shape(self) -> None:
        """Raise CorruptIndex unless whole entries fill the file and the last two are in order (IX-13, IX-16)."""
        if self.missing:
            raise CorruptIndex(f"{self.path} is missing")
        self.check_whole()
        if self.count and not 0 <= self.entry(self.count - 1)[self.offset_field] <= MAX_RELATIVE_OFFSET:
            raise CorruptIndex(f"{self.path}: last offset {self.last_offset} is no offset of its segment")
        if self.count < 2:
            return
        before, last = self.entry(self.count - 2), self.entry(self.count - 1)
        if any(second - first < rise for first, second, rise in zip(before, last, self.rises, strict=False)):
            raise CorruptIndex(f"{self.path}: the last of {self.count} entries does not follow the one before it")

    def _relative(self, offset: int) -> int:
        """Return the offset as it is stored, relative to the segment's base, in 31 bits (IX-4)."""
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise IndexOffsetOverflow(f"offset {offset} does not fit the segment that begins at {self.base_offset}")
        return relative

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
        relative = self._relative(offset)
        if self.count and relative <= (self._last or self._last_entry())[0]:
            raise InvalidIndexOffset(f"{self.path}: offset {offset} is not above the last one, {self.last_offset}")
        self._add(relative, value)


class OffsetPosition(NamedTuple):
    """The last offset of a batch, and the position of its first byte."""

    offset: int
    position: int


class OffsetIndex(OffsetFirstIndex):
    """`.index`: last offset of a batch → its position in the log (3.2)."""

    layout = Struct(">ii")
    fields = (Struct(">i").unpack_from, Struct(">4xi").unpack_from)
    rises = (1, 1)

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the entry with the greatest offset up to `offset`, or the segment's beginning (IX-11)."""
        slot = self._search(offset - self.base_offset, 0)
        return self.get(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def fetch_upper_bound(self, start_position: int, size: int) -> OffsetPosition | None:
        """Return the first entry positioned at or after the end of these bytes, or None (IX-12)."""
        end = start_position + size
        slot = self._search(end, 1)
        if slot < 0 or self.entry(slot)[1] < end:
            slot += 1
        return self.get(slot) if slot < self.count else None

    def get(self, slot: int) -> OffsetPosition:
        relative, position = self.entry(slot)
        return OffsetPosition(relative + self.base_offset, position)


class TimestampOffset(NamedTuple):
    """A timestamp and an offset: every record with a greater timestamp has a greater offset (3.3)."""

    timestamp: int
    offset: int


class TimeIndex(Index):
    """`.timeindex`: greatest timestamp so far → last offset of the first batch that has it (3.3)."""

    layout = Struct(">qi")
    fields = (Struct(">q").unpack_from, Struct(">8xi").unpack_from)
    offset_field = 1
    rises = (1, 0)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if `timestamp` is above the last one (IX-15). Raises InvalidIndexOffset if either falls."""
        relative = self._relative(offset)
        last_timestamp, last_relative = self._last_entry() if self.count else (-1, 0)
        if self.count and (relative < last_relative or timestamp < last_timestamp):
            raise InvalidIndexOffset(f"{self.path}: ⟨{timestamp}, {offset}⟩ goes back from {self.get(self.count - 1)}")
        if timestamp > last_timestamp:
            self._add(timestamp, relative)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry up to `timestamp`, or (-1, base offset) (IX-16)."""
        slot = self._search(timestamp, 0)
        return self.get(slot) if slot >= 0 else TimestampOffset(-1, self.base_offset)

    def get(self, slot: int) -> TimestampOffset:
        timestamp, relative = self.entry(slot)
        return TimestampOffset(timestamp, relative + self.base_offset)


class DigestEntry(NamedTuple):
    """The digest of all batches of the segment whose last offset is at most `offset`."""

    offset: int
    digest: int


class DigestIndex(OffsetFirstIndex):
    """`.digest`: last offset of a batch → sum of the hashes of all batches up to it (`batch_digest`)."""

    layout = Struct(">IQ")
    fields = (Struct(">I").unpack_from, Struct(">4xQ").unpack_from)
    rises = (1,)

    def lookup(self, offset: int) -> DigestEntry:
        """Return the entry with the greatest offset up to `offset`, or (base offset - 1, 0): nothing summed yet."""
        slot = self._search(offset - self.base_offset, 0)
        return self.get(slot) if slot >= 0 else DigestEntry(self.base_offset - 1, 0)

    def get(self, slot: int) -> DigestEntry:
        relative, digest = self.entry(slot)
        return DigestEntry(relative + self.base_offset, digest)


def sealed_digest(path: Path, base_offset: int, next_base: int) -> int | None:
    """Return a whole sealed segment's digest, from the last entry of its digest index; None if that does not say."""
    size = DigestIndex.layout.size
    try:
        with open_regular(path) as fd:
            last = read_exactly(fd, os.fstat(fd).st_size - size, size)
        relative, digest = DigestIndex.layout.unpack(last)
    except (OSError, struct.error):
        return None
    return int(digest) if base_offset + relative == next_base - 1 else None
