"""The cleaner's memory: the latest offset of each key, in a table of fixed size (CL-3)."""

from hashlib import blake2b
from mmap import mmap
from struct import Struct

_SLOT = Struct(">QQQ")  # the key's digest in two halves, the offset plus one; zeros in a free slot
_DIGEST = Struct(">QQ")
LOAD_FACTOR = 0.9
SLOT_BYTES = _SLOT.size


class OffsetMap:
    """Keys are known by 16 bytes of BLAKE2b, so a slot takes 24 bytes however long the key is."""

    def __init__(self, max_bytes: int) -> None:
        """A table of at most `max_bytes`, of which the system provides the pages that are used."""
        self._slots = max_bytes // SLOT_BYTES
        if self._slots < 1:
            raise ValueError(f"{max_bytes} bytes do not hold one slot of {SLOT_BYTES}")
        self._table = mmap(-1, self._slots * SLOT_BYTES)
        self.capacity = max(1, int(self._slots * LOAD_FACTOR))
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def put(self, key: bytes, offset: int) -> bool:
        """Remember `offset` as the latest of `key`; False, and nothing happens, if there is no room for another key."""
        high, low = _DIGEST.unpack(blake2b(key, digest_size=16).digest())
        position, found = self._find(high, low)
        if not found:
            if self.count >= self.capacity:
                return False
            self.count += 1
        _SLOT.pack_into(self._table, position, high, low, offset + 1)
        return True

    def get(self, key: bytes) -> int:
        """The latest offset of `key`; -1 if it is not known."""
        position, found = self._find(*_DIGEST.unpack(blake2b(key, digest_size=16).digest()))
        return _SLOT.unpack_from(self._table, position)[2] - 1 if found else -1

    def _find(self, high: int, low: int) -> tuple[int, bool]:
        """The position of the key's slot, or else of the free one where it belongs."""
        slot = low % self._slots
        for _ in range(self._slots):
            position = slot * SLOT_BYTES
            there_high, there_low, offset = _SLOT.unpack_from(self._table, position)
            if not offset:
                return position, False
            if there_low == low and there_high == high:
                return position, True
            slot += 1
            if slot == self._slots:
                slot = 0
        return 0, False
