"""The index of offsets (3.2)."""

from struct import Struct
from typing import NamedTuple

from replog.log.indexes.index import OffsetFirstIndex


class OffsetPosition(NamedTuple):
    """The last offset of a batch, and the position of its first byte."""

    offset: int
    position: int


class OffsetIndex(OffsetFirstIndex):
    """`.index`: last offset of a batch → its position in the log (3.2)."""

    layout = Struct(">ii")
    fields = (Struct(">i").unpack_from, Struct(">4xi").unpack_from)

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

    @staticmethod
    def _in_order(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        return first[0] < second[0] and first[1] < second[1]
