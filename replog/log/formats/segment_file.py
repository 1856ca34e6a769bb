"""One open file of a segment, here or at a broker, for walks and readers of index entries."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Protocol

from replog.log.errors import CorruptRecord
from replog.log.files.opening import open_regular
from replog.log.files.transfer import read_exactly, read_into
from replog.log.formats.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.formats.headers import read_headers

MAX_HEADERS = 4096  # that are asked for at once
FAR = 12 * 1024  # bytes between headers from which on the system does not read ahead as far as the next one


class Vanished(OSError):
    """What was there is not there any more, or not as it was."""


class SegmentFile(Protocol):
    """It may grow; `size` is what it had when it was opened, in bytes."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes at `position`, fewer only at the end of the file. Raises OSError."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` with the bytes at `position`; their count, less only at the end of the file. Raises OSError."""

    def headers(self, position: int, count: int) -> list[tuple[int, BatchHeader]]:
        """Of a `.log`: position and header of whole batches, one behind the other from `position` on.

        `count` of them (`MAX_HEADERS` at most), fewer before the end of the file or before bytes that are no batch.
        Payload does not travel."""

    def headers_at(self, positions: Sequence[int]) -> list[tuple[int, BatchHeader]]:
        """Of a `.log`: position and header of those positions, `MAX_HEADERS` at most, at which one can be read."""

    def will_read(self, positions: Sequence[int]) -> None:
        """Of a `.log`: headers at those positions, in ascending order if they tell the truth, are about to be read."""


class LocalFile:
    """`SegmentFile` by pread, so that a disk error is an OSError."""

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
        """A disk fetches them side by side then, five times as fast as one after the other."""
        before = 0
        for position in positions:
            if before + FAR <= position < self.size:
                os.posix_fadvise(self._fd, position, HEADER_SIZE, os.POSIX_FADV_WILLNEED)
            before = position


@contextmanager
def open_file(path: Path) -> Iterator[LocalFile]:
    """Read only. Raises OSError, also for what is no regular file."""
    with open_regular(path) as fd:
        yield LocalFile(fd)
