"""The index of digests, which replicas compare."""

from struct import Struct
from typing import NamedTuple

from replog.log.indexes.index import OffsetFirstIndex


class DigestEntry(NamedTuple):
    """The digest of all batches of the segment whose last offset is at most `offset`."""

    offset: int
    digest: int


class DigestIndex(OffsetFirstIndex):
    """`.digest`: last offset of a batch → sum of the hashes of all batches up to it (`digest` module)."""

    layout = Struct(">IQ")
    fields = (Struct(">I").unpack_from, Struct(">4xQ").unpack_from)

    def lookup(self, offset: int) -> DigestEntry:
        """Return the entry with the greatest offset up to `offset`, or (base offset - 1, 0): nothing summed yet."""
        slot = self._search(offset - self.base_offset, 0)
        return self.get(slot) if slot >= 0 else DigestEntry(self.base_offset - 1, 0)

    def get(self, slot: int) -> DigestEntry:
        relative, digest = self.entry(slot)
        return DigestEntry(relative + self.base_offset, digest)

    @staticmethod
    def _in_order(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        return first[0] < second[0]
