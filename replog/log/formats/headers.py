"""Reads the headers of a `.log`, batch by batch, with reads of bounded size that need not wait for the disk."""

from collections.abc import Iterator

from replog.log.files import cold
from replog.log.formats.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.offsets import Buffer

HEADER_WINDOW = 4096


def read_headers(fd: int, end: int, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch below `end`. Raises CorruptRecord at other bytes.

    A partial batch ends the walk. Small batches share a system call."""
    window: Buffer = b""
    start = held = size = 0
    while (following := position + HEADER_SIZE) <= end:
        if following > held:
            window_size = HEADER_SIZE if size > HEADER_WINDOW else min(HEADER_WINDOW, end - position)
            window, start, held = cold.read(fd, position, window_size), position, position + window_size
        header = parse_header(window, position - start)
        size = header.size
        following = position + size
        if following > end:
            return
        yield position, header
        position = following
