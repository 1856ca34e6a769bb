"""Reads the offset index of one segment from its end."""

from collections.abc import Iterator

from replog.config.properties import MAX_LONG
from replog.log.errors import CorruptRecord
from replog.log.files.names import INDEX_SUFFIX
from replog.log.formats.walk import LogFile
from replog.log.indexes.entries import LAYOUTS, used_slots
from replog.log_tools.checker.indexes import open_index
from spark_jobs.replicas.files import ReplicaSegment

FIRST_ENTRIES = 4096  # bytes of the first read; each further one is twice as long
MOST_ENTRIES = 1 << 20  # bytes of the longest read


def last_indexed(segment: ReplicaSegment, log: LogFile, below: int = MAX_LONG) -> int:
    """Return the position of the last true entry of the offset index below an offset; 0 if there is none.

    The entry may be for an append of several batches, and have the first one's position (SG-2).
    """
    for offset, position in entries_from_end(segment):
        if offset >= below:
            continue
        try:
            header = log.header(position)
        except CorruptRecord:
            continue
        if segment.base <= header.base_offset and header.last_offset <= offset:
            return position
    return 0


def entries_from_end(segment: ReplicaSegment) -> Iterator[tuple[int, int]]:
    """Yield offsets and positions of the offset index, true or not, the last entry first. It reads as far as needed.

    Entries that point at the segment's beginning, which are of no use, and unused slots (IX-2) are left out.
    """
    layout = LAYOUTS[INDEX_SUFFIX]
    try:
        with open_index(segment, INDEX_SUFFIX) as file:
            end, size = file.size // layout.size * layout.size, FIRST_ENTRIES
            while end > 0:
                start = max(0, end - size)
                piece = file.read(start, end - start)
                used = layout.iter_unpack(piece[: used_slots(piece, layout) * layout.size])
                for relative, position in reversed(list(used)):
                    if relative >= 0 and position > 0:
                        yield segment.base + relative, position
                end, size = start, min(2 * size, MOST_ENTRIES)
    except FileNotFoundError:
        return
