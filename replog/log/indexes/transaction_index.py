"""The transaction index of a segment (3.5): one entry for each abort marker in it.

A segment has the file only if it holds an aborted transaction."""

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from replog.log.errors import CorruptIndex, InvalidIndexOffset
from replog.log.indexes.index import EntryFile

VERSION = 0
_WINDOW = 256  # entries read at a time


class AbortedTxn(NamedTuple):
    """An aborted transaction: its producer's data batches from `first_offset` to the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # transactions were decided up to here once this one was (PS-6)


class TransactionIndex(EntryFile):
    """`.txnindex`: entries in the order of their markers (IX-19)."""

    layout = Struct(">hqqqq")
    promised = True

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry. Raises InvalidIndexOffset unless its marker lies behind that of the last one."""
        if self.count and entry.last_offset <= (last := AbortedTxn._make(self._last_entry()[1:])).last_offset:
            raise InvalidIndexOffset(f"{self.path}: {entry} does not lie behind {last}")
        self._add(VERSION, *entry)

    def get(self, slot: int) -> AbortedTxn:
        return AbortedTxn._make(self.entry(slot)[1:])

    def entries(self, slot: int = 0) -> Iterator[AbortedTxn]:
        for _, *fields in self._rows(slot):
            yield AbortedTxn._make(fields)

    def collect(self, fetch_offset: int, upper: int) -> tuple[list[AbortedTxn], bool]:
        """Return the transactions that may overlap [fetch_offset, upper), and True if later segments have no more."""
        overlapping = []
        for entry in self.entries(self._first_slot(fetch_offset)):
            if entry.first_offset < upper:
                overlapping.append(entry)
            if entry.last_stable_offset >= upper:
                return overlapping, True
        return overlapping, False

    def truncate_to(self, offset: int) -> None:
        """Keep the entries whose markers lie below `offset`; without any the file is removed."""
        kept = self._first_slot(offset)
        if kept == 0:
            self.reset()
        else:
            self._keep(kept)

    def reset(self) -> None:
        """Drop all entries, and the file."""
        self.close()
        self.path.unlink(missing_ok=True)
        self.count = self.surplus = 0
        self.missing = True

    def check(self, end_offset: int) -> None:
        """Raise CorruptIndex unless whole entries of known version name rising markers in [base offset, end_offset)."""
        self.check_whole()
        before = self.base_offset - 1
        for slot, (version, producer_id, first, last, stable) in enumerate(self._rows(0)):
            if (
                version != VERSION
                or producer_id < 0
                or not before < last < end_offset
                or not 0 <= first <= last
                or stable < 0
            ):
                raise CorruptIndex(
                    f"{self.path}: entry {slot} (version {version}, producer {producer_id}, {first} to {last}, stable "
                    f"{stable}) is none of a segment from {self.base_offset} to {end_offset}"
                )
            before = last

    def flush(self) -> None:
        """fsync the file if there are entries."""
        if self.count:
            super().flush()

    def _first_slot(self, offset: int) -> int:
        """Return the first slot whose marker lies at `offset` or behind."""
        return bisect_left(range(self.count), offset, key=lambda slot: self.get(slot).last_offset)

    def _rows(self, slot: int) -> Iterator[tuple[int, ...]]:
        while slot < self.count:
            yield from self.layout.iter_unpack(self._read(slot, min(slot + _WINDOW, self.count)))
            slot += _WINDOW
