"""The base of a segment's indexes: a file of fixed-size big-endian entries in use order, without header (IX-1).

Entries are written behind the log by plain writes, never preallocated and never through a mapping, so a file holds its
entries and nothing else, a crash leaves no zeros, and a full disk raises an error instead of a bus error. In memory are
only those that are not written yet."""

import os
from pathlib import Path
from struct import Struct
from typing import ClassVar

from replog.log.errors import CorruptIndex
from replog.log.files.open_files import OpenFile


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

    def forget_last(self, count: int) -> None:
        """Keep the first `count` entries; the others are not written yet."""
        size = self.layout.size
        del self.pending[len(self.pending) - (self.count - count) * size :]
        self.count, self._last = count, None

    def entry(self, slot: int) -> tuple[int, ...]:
        """Return the fields as stored."""
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
