"""The cleaner's memory: the latest offset of each key, in a table of fixed size (CL-3), and each record's fate."""

from hashlib import blake2b
from mmap import mmap
from struct import Struct

from replog.log.formats.batch import BatchHeader

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


UNKNOWN, LATEST, LATEST_TOMBSTONE, GONE = range(4)
STAYING = bytes.maketrans(bytes([GONE]), bytes(1))  # a staying record is not zero
STAYING_WITHOUT_TOMBSTONES = bytes.maketrans(bytes([GONE, LATEST_TOMBSTONE]), bytes(2))


class Fates:
    """The codes of `count` offsets from `first` on: `codes[offset - first]`."""

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.count = count
        self.codes = memoryview(mmap(-1, max(1, count)))

    def of(self, header: BatchHeader) -> bytes | None:
        """Return the codes of a batch's records; None if one is not known, or if the batch has holes."""
        start, end = header.base_offset - self.first, header.next_offset - self.first
        if start < 0 or end > self.count or end - start != header.records_count:
            return None
        codes = bytes(self.codes[start:end])
        return None if UNKNOWN in codes else codes
