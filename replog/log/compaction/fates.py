"""Notes each record's fate in the first pass of a cleaning, so that the second need not ask the map again.

One byte an offset. A record is the latest of its key until a later one replaces it. So when all are read, the bytes say
what the map would say, without hashing keys. 0 means not noted; such a record is looked up."""

from mmap import mmap

from replog.log.formats.batch import BatchHeader

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
