"""The index of timestamps (3.3)."""

from struct import Struct
from typing import NamedTuple

from replog.log.errors import InvalidIndexOffset
from replog.log.indexes.index import MAX_RELATIVE_OFFSET, Index


class TimestampOffset(NamedTuple):
    """A timestamp and an offset: every record with a greater timestamp has a greater offset (3.3)."""

    timestamp: int
    offset: int


class TimeIndex(Index):
    """`.timeindex`: greatest timestamp so far → last offset of the first batch that has it (3.3)."""

    layout = Struct(">qi")
    fields = (Struct(">q").unpack_from, Struct(">8xi").unpack_from)
    offset_field = 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if `timestamp` is above the last one (IX-15). Raises InvalidIndexOffset if either falls."""
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise self._overflow(offset)
        last_timestamp, last_relative = self._last_entry() if self.count else (-1, 0)
        if self.count and (relative < last_relative or timestamp < last_timestamp):
            raise InvalidIndexOffset(f"{self.path}: ⟨{timestamp}, {offset}⟩ goes back from {self.get(self.count - 1)}")
        if timestamp > last_timestamp:
            self._add_fields(timestamp, relative)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry up to `timestamp`, or (-1, base offset) (IX-16)."""
        slot = self._search(timestamp, 0)
        return self.get(slot) if slot >= 0 else TimestampOffset(-1, self.base_offset)

    def get(self, slot: int) -> TimestampOffset:
        timestamp, relative = self.entry(slot)
        return TimestampOffset(timestamp, relative + self.base_offset)

    @staticmethod
    def _in_order(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        return first[0] < second[0] and first[1] <= second[1]
