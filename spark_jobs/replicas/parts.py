"""Parts of a large segment, each checked by its own task; together they report what one check of it all reports.

A part begins at a border: a batch with an offset entry, such that a short walk before it finds batches and index
entries sound. Every walk that comes to a border has the same state there, wherever it began, and has judged everything
before it. If a part has no border, the part before it reads on.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

from replog.config.properties import MAX_INT
from replog.log.errors import CorruptRecord
from replog.log.formats.walk import LogFile
from replog.log_tools.checker.findings import Fault
from replog.log_tools.checker.indexes import Indexes
from replog.log_tools.checker.segment import SegmentChecker
from spark_jobs.replicas.files import ReplicaSegment

PART_BYTES = 256 << 20  # every part reads all indexes, some 2 % of 1 GiB
MAX_TRIES = 8  # entries that are tried as a border
MAX_WARM_UP = 8 << 20  # bytes of log that the walk before a border reads

_offset, _position = itemgetter(1), itemgetter(2)


class Part(NamedTuple):
    """Part `number`, from 0, of `of` parts of `size` bytes each; the last also has the rest, and what is appended."""

    number: int
    of: int
    size: int


WHOLE = Part(0, 1, 1 << 63)


def parts_of(segment: ReplicaSegment, size: int = PART_BYTES) -> list[Part]:
    """Return the parts in which a segment is read. If there are two or more, none is shorter than `size` bytes.

    Beyond the last position that an index can name there are no borders.
    """
    count = max(1, min(segment.size, MAX_INT) // size)
    return [Part(number, count, size) for number in range(count)]


class Border(NamedTuple):
    """The beginning of a part, and a checker that has come there."""

    position: int
    following: list[int]  # this part's first entry of each index
    checker: SegmentChecker


class Borders:
    def __init__(
        self, segment: ReplicaSegment, indexes: Indexes, log: LogFile, new_checker: Callable[[], SegmentChecker]
    ) -> None:
        self._segment = segment
        self._indexes = indexes
        self._entries = indexes.offsets.rows
        self._log = log
        self._new_checker = new_checker

    def find(self, part: Part) -> Border | None:
        """Return the part's border, or None. It depends only on the files, so all tasks find the same one."""
        if part.number == 0:
            return Border(0, [0, 0, 0], self._new_checker())
        first = part.number * part.size
        end = first + part.size if part.number + 1 < part.of else self._segment.size
        slot = bisect_left(self._entries, first, key=_position)
        for candidate in range(slot, min(slot + MAX_TRIES, bisect_left(self._entries, end, key=_position))):
            border = self._try(candidate)
            if border is not None:
                return border
        return None

    def _try(self, slot: int) -> Border | None:
        """Return the border at an entry of the offset index, if a walk comes there without a fault."""
        entry = self._entries[slot]
        if not self._log.is_landmark(entry):
            return None
        position, offset = entry[2], self._log.header(entry[2]).base_offset
        following = self._indexes.from_offset(slot, offset)
        start = self._start(following)
        at = self._entries[start][2] if start >= 0 else 0
        if position - at > MAX_WARM_UP:
            return None
        checker = self._new_checker()
        if start >= 0:
            if not self._log.is_landmark(self._entries[start]):
                return None
            checker.begin(start, self._log.header(at).base_offset)
        try:
            sound = not any(isinstance(item, Fault) for item in checker.run(self._log, at, position))
        except CorruptRecord:
            return None
        return Border(position, following, checker) if sound and checker.has_come_to(offset) else None

    def _start(self, following: list[int]) -> int:
        """Return the offset entry at which the walk to `following` must begin; -1: at the segment's beginning.

        It has to see the batch before, the last time entry, and the last two digest entries, if more of them follow.
        """
        slot, time, digest = following
        before = [slot - 1]
        if time < len(self._indexes.times.rows):
            before.append(self._floor(self._indexes.times.rows[time - 1][2]) if time else -1)
        if digest < len(self._indexes.digests.rows):
            before.append(self._floor(self._indexes.digests.rows[digest - 2][1]) if digest > 1 else -1)
        return min(before)

    def _floor(self, offset: int) -> int:
        """Return the last entry of the offset index up to `offset`."""
        return bisect_right(self._entries, offset, key=_offset) - 1
