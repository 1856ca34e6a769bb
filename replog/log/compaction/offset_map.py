"""The cleaner's memory: the latest offset of each key, in a table of fixed size (CL-3)."""

from hashlib import blake2b
from mmap import mmap
from struct import Struct

_DIGEST = Struct("=QQ").unpack_from  # the first 16 bytes
_WORDS = 3  # 8 bytes each: the key's digest in two halves, the offset plus one; zeros in a free slot
SLOT_BYTES = _WORDS * 8
LOAD_FACTOR = 0.9


class OffsetMap:
    """A hash table that knows keys by 16 bytes of BLAKE2b, so a slot takes 24 bytes however long the key is."""

    def __init__(self, max_bytes: int) -> None:
        """Make a table of at most `max_bytes`, and one slot more that is always free, where every search ends. Unused
        pages take no memory."""
        slots = max_bytes // SLOT_BYTES
        if slots < 1:
            raise ValueError(f"{max_bytes} bytes do not hold one slot of {SLOT_BYTES}")
        self._slots = slots + 1
        self._table = memoryview(mmap(-1, self._slots * SLOT_BYTES)).cast("Q")
        self.capacity = max(1, int(slots * LOAD_FACTOR))
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def put(self, key: bytes, offset: int) -> int | None:
        """Note `offset` as the latest of `key`. Return the offset that it replaces, -1 for a new key. None, and nothing
        happens, if there is no room for another key."""
        high, low = _DIGEST(blake2b(key).digest())
        table = self._table
        place = low % self._slots * _WORDS
        while stored := table[place + 2]:
            if table[place + 1] == low and table[place] == high:
                table[place + 2] = offset + 1
                return int(stored) - 1
            place += _WORDS
            if place == len(table):
                place = 0
        if self.count >= self.capacity:
            return None
        self.count += 1
        table[place], table[place + 1], table[place + 2] = high, low, offset + 1
        return -1

    def get(self, key: bytes) -> int:
        """Return the latest offset of `key`; -1 if it is not known."""
        high, low = _DIGEST(blake2b(key).digest())
        table = self._table
        place = low % self._slots * _WORDS
        while stored := table[place + 2]:
            if table[place + 1] == low and table[place] == high:
                return int(stored) - 1
            place += _WORDS
            if place == len(table):
                place = 0
        return -1
