"""What the first pass of a cleaning saw come of each record it read: the second need not ask the map again.

One byte an offset. A record is the latest of its key until a later one takes its place, so when all are read the bytes
say what the map would say, without a key to hash. What was not noted is 0, and is looked up.
"""

from mmap import mmap

from replog.log.formats.batch import BatchHeader

UNKNOWN, LATEST, LATEST_TOMBSTONE, GONE = range(4)
STAYING = bytes.maketrans(bytes([GONE]), bytes(1))  # what stays is not zero
STAYING_WITHOUT_TOMBSTONES = bytes.maketrans(bytes([GONE, LATEST_TOMBSTONE]), bytes(2))


class Fates:
    """Of `count` offsets from `first` on: `codes[offset - first]`, for the pass that rewrites them."""

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.count = count
        self.codes = memoryview(mmap(-1, max(1, count)))

    def of(self, header: BatchHeader) -> bytes | None:
        """Of each record in turn; None if one of them is not known, or if the batch has holes."""
        start, end = header.base_offset - self.first, header.next_offset - self.first
        if start < 0 or end > self.count or end - start != header.records_count:
            return None
        codes = bytes(self.codes[start:end])
        return None if UNKNOWN in codes else codes
