"""Reads the offset index of one segment from its end."""

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

    The entry may be for an append of several batches, and have the first one's position (SG-2). It reads the index from
    its end, as far as needed, without the slots that are not used (IX-2).
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
                    offset = segment.base + relative
                    if segment.base <= offset < below and position > 0 and _is_true(segment, log, offset, position):
                        return int(position)
                end, size = start, min(2 * size, MOST_ENTRIES)
    except FileNotFoundError:
        pass
    return 0


def _is_true(segment: ReplicaSegment, log: LogFile, offset: int, position: int) -> bool:
    try:
        header = log.header(position)
    except CorruptRecord:
        return False
    return segment.base <= header.base_offset and header.last_offset <= offset
