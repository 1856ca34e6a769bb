"""A segment's offset, time and digest index against its batches.

An index need not have any particular entry, and which ones it has differs between writers (SG-2): so what is asserted
is what holds on any replica (11), that each entry leads a lookup to the right place.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import BatchHeader
from replog.log.formats.digest import MODULUS_MASK, add_digests, batch_digest
from replog.log.formats.segment_file import SegmentFile
from replog.log.indexes.rules import ends_batch, times_batch
from replog.log.offsets import NO_TIMESTAMP
from replog.log.tools.verify.findings import Finding, Kind
from replog.log.tools.verify.index_check import Fields, IndexCheck, IndexEntry, told


class OffsetIndexCheck(IndexCheck):
    """(o, p): a batch begins at p, those before it end below o, and a batch at p or later ends with o.

    With `exact`, as we write them, it is the one at p.
    """

    def __init__(self, path: Path, file: SegmentFile | None, base: int, *, cleaned_to: int, exact: bool) -> None:
        super().__init__(path, file, INDEX_SUFFIX)
        self._base = base
        self.indexed = False  # the batch seen last has an entry of its own
        self._cleaned_to = cleaned_to
        self._exact = exact
        self._last_offset = base - 1
        self._pending: deque[IndexEntry] = deque()  # a batch is at their position; the one with their offset is to come

    def _follows(self, before: Fields | None, fields: Fields) -> bool:
        return (fields[0] >= 0 <= fields[1]) if before is None else before[0] < fields[0] and before[1] < fields[1]

    def lose(self) -> None:
        """Nothing is known of the rest of the log."""
        self._pending.clear()
        while self._next is not None:
            self._advance()

    def see(self, position: int, header: BatchHeader) -> Iterator[Finding]:
        """A sound batch."""
        yield from self._drained()
        while self._next is not None and self._next.fields[1] <= position:
            yield from self._position(self._next, position, header)
            self._advance()
        self.indexed = False
        while self._pending and self._pending[0].fields[0] + self._base <= header.last_offset:
            entry = self._pending.popleft()
            offset = entry.fields[0] + self._base
            self.indexed = (offset, entry.fields[1]) == (header.last_offset, position)
            if not ends_batch(header, offset, self._cleaned_to):
                message = f"{told(entry)}: no batch ends with offset {offset}"
                yield Kind.INDEX_ENTRY.at(self.path, message, position=entry.position, offset=offset)
        self._last_offset = header.last_offset

    def _position(self, entry: IndexEntry, position: int, header: BatchHeader) -> Iterator[Finding]:
        offset = entry.fields[0] + self._base
        if entry.fields[1] < position:
            message = f"{told(entry)}: no batch begins at {entry.fields[1]}"
        elif offset <= self._last_offset:
            message = f"{told(entry)}: the batches before that place reach up to offset {self._last_offset}"
        elif self._exact and offset != header.last_offset:
            message = f"{told(entry)}: the batch there ends with offset {header.last_offset}"
        else:
            self._pending.append(entry)
            return
        yield Kind.INDEX_ENTRY.at(self.path, message, position=entry.position, offset=offset)

    def skip_to(self, position: int, header: BatchHeader) -> None:
        """Nothing is known of what lies before this batch."""
        while self._next is not None and self._next.fields[1] < position:
            self._advance()
        self._pending.clear()
        self._last_offset = header.base_offset - 1

    def finish(self, beyond: Kind) -> Iterator[Finding]:
        for entry in self._pending:
            yield beyond.at(self.path, f"{told(entry)} is beyond the last batch", position=entry.position)
        yield from super().finish(beyond)


class TimeIndexCheck(IndexCheck):
    """⟨t, o⟩: the batch with o has the timestamp t, and none up to there has a greater one.

    With `exact`, as we write them, it ends with o.
    """

    def __init__(self, path: Path, file: SegmentFile | None, base: int, *, cleaned_to: int, exact: bool) -> None:
        super().__init__(path, file, TIME_INDEX_SUFFIX)
        self._base = base
        self._cleaned_to = cleaned_to
        self._exact = exact
        self._greatest = (NO_TIMESTAMP, base)  # with the last offset of the first batch that has it
        self._latest = (NO_TIMESTAMP, base)  # entry

    def _follows(self, before: Fields | None, fields: Fields) -> bool:
        return fields[1] >= 0 if before is None else before[0] < fields[0] and before[1] <= fields[1]

    def see(self, header: BatchHeader) -> Iterator[Finding]:
        """A sound batch."""
        yield from self._drained()
        if header.max_timestamp > self._greatest[0]:
            self._greatest = header.max_timestamp, header.last_offset
        while self._next is not None and self._next.fields[1] + self._base <= header.last_offset:
            timestamp, offset = self._latest = self._next.fields[0], self._next.fields[1] + self._base
            wrong = None
            if not times_batch(header, offset, self._cleaned_to, exact=self._exact):
                wrong = f"no batch {'ends with' if self._exact else 'has'} offset {offset}"
            elif timestamp != header.max_timestamp:
                wrong = f"the greatest timestamp of that batch is {header.max_timestamp}"
            elif timestamp < self._greatest[0]:
                wrong = f"an earlier batch has timestamp {self._greatest[0]}"
            if wrong:
                message = f"{told(self._next)}: {wrong}"
                yield Kind.INDEX_ENTRY.at(self.path, message, position=self._next.position, offset=offset)
            self._advance()

    def see_indexed(self, header: BatchHeader) -> Iterator[Finding]:
        """In a directory of ours, an entry of the offset index has the greatest timestamp up to there beside it."""
        if not self.missing and self._latest != self._greatest:
            message = f"the greatest timestamp up to there is {self._greatest}, the entry before it {self._latest}"
            yield Kind.INDEX_ENTRY.at(self.path, message, offset=header.last_offset)
            self._latest = self._greatest

    def skip_to(self, header: BatchHeader) -> None:
        """Nothing is known of what lies before this batch."""
        while self._next is not None and self._next.fields[1] + self._base < header.base_offset:
            self._latest = self._greatest = self._next.fields[0], self._next.fields[1] + self._base
            self._advance()


class DigestCheck(IndexCheck):
    """A digest is the sum of the batches' hashes so far; one lies beside each offset-index entry (divergence 3)."""

    def __init__(self, path: Path, file: SegmentFile, base: int) -> None:
        super().__init__(path, file, DIGEST_SUFFIX)
        self._base = base
        self._sum = 0
        self._drift: int | None = 0  # what the entries are known to be off by; None: to be seen
        self._last_offset = base - 1
        self._reached = base - 1  # offset of the last entry

    def _follows(self, before: Fields | None, fields: Fields) -> bool:
        return before is None or before[0] < fields[0]

    def see(self, header: BatchHeader, *, indexed: bool) -> Iterator[Finding]:
        """A sound batch, and whether the offset index has an entry for it."""
        yield from self._drained()
        self._sum = add_digests(self._sum, batch_digest(header))
        while self._next is not None and self._next.fields[0] + self._base <= header.last_offset:
            entry = self._next
            offset = self._reached = entry.fields[0] + self._base
            drift = (entry.fields[1] - self._sum) & MODULUS_MASK
            wrong = None
            if offset != header.last_offset:
                wrong = f"no batch ends with offset {offset}"
            elif self._drift is not None and drift not in (0, self._drift):
                wrong = f"the batches up to offset {offset} make {self._sum:016x}, not {entry.fields[1]:016x}"
            if offset == header.last_offset:
                self._drift = drift  # a batch that was changed puts all later digests off: say it once
            if wrong:
                message = f"{told(entry)}: {wrong}"
                yield Kind.DIGEST.at(self.path, message, position=entry.position, offset=offset)
            self._advance()
        if indexed and self._reached != header.last_offset:
            message = f"no digest at offset {header.last_offset}, where the offset index has an entry"
            yield Kind.DIGEST.at(self.path, message, offset=header.last_offset)
        self._last_offset = header.last_offset

    def skip_to(self, header: BatchHeader) -> None:
        """Nothing is known of what lies before this batch."""
        self._drift = None
        while self._next is not None and self._next.fields[0] + self._base < header.base_offset:
            self._advance()

    def finish_sealed(self) -> Iterator[Finding]:
        """A segment that is not the newest one has a digest at its end."""
        if self._reached != self._last_offset and self._drift is not None:
            yield Kind.DIGEST.at(self.path, f"no digest at the segment's last offset {self._last_offset}")
