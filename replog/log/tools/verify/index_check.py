"""The entries of one index file, as the batches go by that they speak of."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from replog.log.formats.segment_file import SegmentFile
from replog.log.indexes.entries import IndexFile
from replog.log.tools.verify.findings import Finding, Kind

Fields = tuple[int, ...]


class IndexEntry(NamedTuple):
    """One entry: its number, its place in the file, and its fields as stored."""

    slot: int
    position: int
    fields: Fields


class IndexCheck:
    """Takes a file's entries one by one as the batches go by; there may be no file."""

    def __init__(self, path: Path, file: SegmentFile | None, suffix: str) -> None:
        self.path = path
        self._stored = IndexFile(file, suffix) if file is not None else None
        self._entries = self._in_order(self._stored) if self._stored is not None else iter(())
        self._findings: list[Finding] = []  # by looking ahead
        self._next: IndexEntry | None = None
        self._advance()

    @property
    def missing(self) -> bool:
        """Whether there is no such file."""
        return self._stored is None

    def _in_order(self, stored: IndexFile) -> Iterator[IndexEntry | Finding]:
        """The entries of which each follows the one before, and a finding for each that does not.

        Of two that disagree, the first one is at fault if the second one follows the entry before them and the entry
        after them does not follow the first.
        """
        size, follows = stored.layout.size, self._follows
        before: Fields | None = None
        entries = (IndexEntry(slot, slot * size, fields) for slot, fields in enumerate(stored))
        coming: Iterator[IndexEntry | None] = chain(entries, (None, None, None))
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
                message = f"entry {current.slot} is {fields}, between {before} and {after and after.fields}"
                yield Kind.INDEX_ORDER.at(self.path, message, position=current.position)
            else:
                before = fields
                yield current
            current, after = after, later

    def _follows(self, before: Fields | None, fields: Fields) -> bool:
        """Whether an entry can come after another, or first."""
        raise NotImplementedError

    def check_shape(self, *, active: bool) -> Iterator[Finding]:
        """Whole entries, and zeros behind them only where more are to come (IX-2, IX-6)."""
        stored = self._stored
        if stored is None:
            return
        used = stored.count * stored.layout.size
        if stored.surplus:
            message = f"{stored.surplus} bytes after the last whole entry of {stored.layout.size}"
            position = used + stored.unused * stored.layout.size
            yield Kind.INDEX_SHAPE.at(self.path, message, position=position)
        if stored.unused:
            kind = Kind.PREALLOCATED if active else Kind.NOT_TRIMMED
            yield kind.at(self.path, f"{stored.unused} entries of zeros at the end", position=used)

    def finish(self, beyond: Kind) -> Iterator[Finding]:
        """The batches are over; entries for later ones are of kind `beyond`."""
        yield from self._drained()
        while self._next is not None:
            message = f"{told(self._next)} is beyond the last batch"
            yield beyond.at(self.path, message, position=self._next.position)
            self._advance()
            yield from self._drained()

    def _advance(self) -> None:
        self._next = None
        for entry in self._entries:
            if isinstance(entry, IndexEntry):
                self._next = entry
                return
            self._findings.append(entry)

    def _drained(self) -> list[Finding]:
        findings, self._findings = self._findings, []
        return findings


def told(entry: IndexEntry) -> str:
    return f"entry {entry.slot} {entry.fields}"
