"""The entries of one index file as a stream, so that a large file costs no memory."""

import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from replog.log.files import read_exactly
from replog.log.verify.findings import Finding, Kind

WINDOW_ENTRIES = 8192


Fields = tuple[int, ...]


class Entry(NamedTuple):
    """One entry: its number, its place in the file, and its fields as stored."""

    slot: int
    position: int
    fields: Fields


class IndexFile:
    """The entries that were there when it was opened, up to the zeros of a preallocated end (IX-2)."""

    def __init__(self, path: Path, fd: int, layout: Struct) -> None:
        self.path = path
        self._fd = fd
        self._layout = layout
        self._length = os.fstat(fd).st_size
        self.count = self._used()

    def _used(self) -> int:
        """Entries before the trailing zeros; a single entry of zeros is taken for one (timestamp 0, first offset)."""
        size = self._layout.size
        whole = self._length // size
        if whole == 1:
            return 1
        end = whole * size
        while end > 0:
            start = max(0, end - size * WINDOW_ENTRIES)
            used = len(read_exactly(self._fd, start, end - start).rstrip(b"\0"))
            if used:
                return -(-(start + used) // size)
            end = start
        return 0

    def check_shape(self, *, active: bool) -> Iterator[Finding]:
        """Whole entries, and zeros behind them only where more are to come (IX-2, IX-6)."""
        size = self._layout.size
        if surplus := self._length % size:
            found = f"{surplus} bytes after the last whole entry of {size}"
            yield Kind.INDEX_SHAPE.at(self.path, found, position=self._length - surplus)
        if zeros := self._length // size - self.count:
            kind = Kind.PREALLOCATED if active else Kind.NOT_TRIMMED
            yield kind.at(self.path, f"{zeros} entries of zeros at the end", position=self.count * size)

    def entries(self) -> Iterator[Entry]:
        """Every entry, read in pieces; the file may be cut meanwhile."""
        size = self._layout.size
        for start in range(0, self.count, WINDOW_ENTRIES):
            wanted = min(WINDOW_ENTRIES, self.count - start)
            data = read_exactly(self._fd, start * size, wanted * size)
            whole = data[: len(data) // size * size]
            for slot, fields in enumerate(self._layout.iter_unpack(whole), start):
                yield Entry(slot, slot * size, fields)

    def in_order(self, follows: Callable[[Fields | None, Fields], bool]) -> Iterator[Entry | Finding]:
        """The entries of which each `follows` the one before, and a finding for each that does not.

        Of two that disagree, the first one is at fault if the second one follows the entry before them and the entry
        after them does not follow the first.
        """
        before: Fields | None = None
        coming: Iterator[Entry | None] = chain(self.entries(), (None, None, None))
        current, after = next(coming), next(coming)
        for later in coming:
            if current is None:
                return
            fields = current.fields
            stands_out = (
                after is not None
                and not follows(fields, after.fields)
                and follows(before, after.fields)
                and not (later is not None and follows(fields, later.fields))
            )
            if stands_out or not follows(before, fields):
                found = f"entry {current.slot} is {fields}, between {before} and {after and after.fields}"
                yield Kind.INDEX_ORDER.at(self.path, found, position=current.position)
            else:
                before = fields
                yield current
            current, after = after, later


class IndexCheck:
    """Takes a file's entries one by one as the batches go by; there may be no file."""

    def __init__(self, path: Path, fd: int | None, layout: Struct) -> None:
        self.path = path
        self._file = IndexFile(path, fd, layout) if fd is not None else None
        self._entries = self._file.in_order(self._follows) if self._file is not None else iter(())
        self._found: list[Finding] = []  # by looking ahead
        self._next: Entry | None = None
        self._advance()

    @property
    def missing(self) -> bool:
        """Whether there is no such file."""
        return self._file is None

    def _follows(self, before: Fields | None, fields: Fields) -> bool:
        """Whether an entry can come after another, or first."""
        raise NotImplementedError

    def check_shape(self, *, active: bool) -> Iterator[Finding]:
        """What is wrong with the file as such."""
        if self._file is not None:
            yield from self._file.check_shape(active=active)

    def finish(self, beyond: Kind) -> Iterator[Finding]:
        """The batches are over; entries for later ones are of kind `beyond`."""
        yield from self._drained()
        while self._next is not None:
            found = f"{told(self._next)} is beyond the last batch"
            yield beyond.at(self.path, found, position=self._next.position)
            self._advance()
            yield from self._drained()

    def _advance(self) -> None:
        self._next = None
        for entry in self._entries:
            if isinstance(entry, Entry):
                self._next = entry
                return
            self._found.append(entry)

    def _drained(self) -> list[Finding]:
        found, self._found = self._found, []
        return found


def told(entry: Entry) -> str:
    return f"entry {entry.slot} {entry.fields}"
