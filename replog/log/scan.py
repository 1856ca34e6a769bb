"""Walks over the batches of a `.log` file by reads of bounded size."""

import os
from collections.abc import Iterator

from replog.log.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.errors import CorruptRecord
from replog.log.files import read_exactly

HEADER_WINDOW = 4096
DATA_WINDOW = 1 << 20


class BatchReader:
    """Reads batches below `end` through one window, so that small batches share a system call."""

    def __init__(self, fd: int, end: int) -> None:
        self._fd = fd
        self._end = end
        self._start = 0
        self._window = b""

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each whole batch; ends at a partial one. Raises CorruptRecord at no batch."""
        while position + HEADER_SIZE <= self._end:
            start = self._hold(position, HEADER_SIZE, HEADER_WINDOW)
            header = parse_header(self._window, start)
            following = position + header.size
            if following > self._end:
                return
            yield position, header
            position = following

    def batches(self, position: int, max_bytes: int | None = None) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """As `headers`, each with all its bytes, valid until the next step. CorruptRecord beyond `max_bytes` of one."""
        while position + HEADER_SIZE <= self._end:
            start = self._hold(position, HEADER_SIZE, DATA_WINDOW)
            header = parse_header(self._window, start)
            size = header.size
            if position + size > self._end:
                return
            if max_bytes is not None and size > max_bytes:
                raise CorruptRecord(f"batch {header.base_offset} has {size} bytes, more than {max_bytes}")
            start = self._hold(position, size, DATA_WINDOW)
            yield position, header, memoryview(self._window)[start : start + size]
            position += size

    def _hold(self, position: int, size: int, window: int) -> int:
        """Where in the window the `size` bytes at `position` begin.

        They lie below the end, so they are fewer only if the file was cut meanwhile.
        """
        start = position - self._start
        if start < 0 or start + size > len(self._window):
            self._window = read_exactly(self._fd, position, min(max(size, window), self._end - position))
            self._start, start = position, 0
            if window == DATA_WINDOW:
                os.posix_fadvise(self._fd, position + len(self._window), window, os.POSIX_FADV_WILLNEED)
        return start
