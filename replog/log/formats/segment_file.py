"""One open file of a segment, here or at a broker, for walks and readers of index entries; and a walk over headers that
need not wait for the disk."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Protocol

from replog.log.errors import CorruptRecord
from replog.log.files import cold
from replog.log.files.filesystem import read_exactly, read_into
from replog.log.files.opening import open_regular
from replog.log.formats.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.offsets import Buffer

HEADER_WINDOW = 4096
MAX_HEADERS = 4096  # asked for at once
FAR = 12 * 1024  # if headers are so many bytes apart, the system does not read the next one ahead


class Vanished(OSError):
    """A file, or a part of it, that was there before is gone or changed."""


class SegmentFile(Protocol):
    """A file that may grow; `size` is what it had when it was opened, in bytes."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """Read `size` bytes at `position`, fewer only at the end of the file. Raises OSError."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` with the bytes at `position` and return how many: fewer at the file's end. Raises OSError."""

    def headers(self, position: int, count: int) -> list[tuple[int, BatchHeader]]:
        """Read position and header of whole batches in a `.log`, one behind the other from `position` on.

        Returns `count` of them (`MAX_HEADERS` at most), fewer before the end of the file or before bytes that are no
        batch. No payload is transferred."""

    def headers_at(self, positions: Sequence[int]) -> list[tuple[int, BatchHeader]]:
        """Read position and header at those positions of a `.log`, `MAX_HEADERS` at most, at which one can be read."""

    def will_read(self, positions: Sequence[int]) -> None:
        """Prepare to read headers of a `.log` at those positions, which should be in ascending order."""


class LocalFile:
    """A `SegmentFile` that uses pread, so that a disk error is an OSError."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size = os.fstat(fd).st_size

    def read(self, position: int, size: int) -> bytes:
        return read_exactly(self._fd, position, size)

    def read_into(self, position: int, buffer: memoryview) -> int:
        return read_into(self._fd, position, buffer)

    def headers(self, position: int, count: int) -> list[tuple[int, BatchHeader]]:
        headers: list[tuple[int, BatchHeader]] = []
        with suppress(CorruptRecord):
            headers.extend(islice(read_headers(self._fd, self.size, position), count))
        return headers

    def headers_at(self, positions: Sequence[int]) -> list[tuple[int, BatchHeader]]:
        self.will_read(positions)
        headers = []
        for position in positions:
            with suppress(CorruptRecord):
                headers.append((position, parse_header(self.read(position, HEADER_SIZE))))
        return headers

    def will_read(self, positions: Sequence[int]) -> None:
        """Let a disk read them side by side, five times as fast as one after the other."""
        before = 0
        for position in positions:
            if before + FAR <= position < self.size:
                os.posix_fadvise(self._fd, position, HEADER_SIZE, os.POSIX_FADV_WILLNEED)
            before = position


@contextmanager
def open_file(path: Path) -> Iterator[LocalFile]:
    """Open to read only. Raises OSError, also for anything but a regular file."""
    with open_regular(path) as fd:
        yield LocalFile(fd)


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
