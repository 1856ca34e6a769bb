"""A walk over the bytes of a `.log` file that nobody vouches for: every batch, its CRC, and where there is none."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from replog.log.batch import CRC_START, HEADER_SIZE, BatchHeader, parse_header
from replog.log.errors import CorruptRecord
from replog.log.files import read_exactly

WINDOW = 1 << 20
MAX_BATCH_IN_MEMORY = 64 << 20  # larger ones are read, for their CRC, in pieces


class Batch(NamedTuple):
    """A whole batch, as its header has it."""

    position: int
    header: BatchHeader
    crc: int  # of the bytes that are there
    data: memoryview | None  # until the next step; None if it is too large to be held

    @property
    def sound(self) -> bool:
        return self.crc == self.header.crc


class Break(NamedTuple):
    """No batch is at `position`; the walk goes on at `resume`, or ends if that is None.

    That may be before `position`, if the batch before had a wrong CRC, and so perhaps a wrong length.
    """

    position: int
    resume: int | None
    reason: str
    cut_short: bool  # a batch may begin here, but the file ends before it does
    zeros: bool  # nothing but zeros up to the end of the file


class LogWalk:
    """Reads below `end`, the size that the file had when the walk began, with pread and bounded memory."""

    def __init__(self, fd: int, end: int) -> None:
        self._fd = fd
        self.end = end
        self._start = 0
        self._window = memoryview(b"")

    def batches(self, resume_after: Callable[[int], Iterator[int]]) -> Iterator[Batch | Break]:
        """Every batch in order. At a break, goes on at the first of `resume_after(position)` that has a sound batch.

        After a batch with a wrong CRC its length may be what was wrong, so the search begins at that batch.
        """
        position = suspect = 0
        while position < self.end:
            try:
                batch = self._batch(position, self._header(position))
            except CorruptRecord as error:
                resume = next((at for at in resume_after(suspect) if self._is_sound(at)), None)
                cut_short = isinstance(error, _CutShort)
                yield Break(position, resume, error.message, cut_short, resume is None and self._only_zeros(position))
                if resume is None:
                    return
                position = suspect = resume
                continue
            yield batch
            position += batch.header.size
            suspect = position if batch.sound else batch.position

    def _header(self, position: int) -> BatchHeader:
        left = self.end - position
        if left < HEADER_SIZE:
            raise _CutShort(f"{left} bytes are too few for a batch header")
        header = parse_header(self._bytes(position, HEADER_SIZE))
        if header.size > left:
            raise _CutShort(f"a batch of {header.size} bytes begins in the last {left}")
        return header

    def _batch(self, position: int, header: BatchHeader) -> Batch:
        if header.size <= MAX_BATCH_IN_MEMORY:
            data = self._bytes(position, header.size)
            return Batch(position, header, crc32c(data[CRC_START:]), data)
        crc = 0
        for piece in self._pieces(position + CRC_START, position + header.size):
            crc = crc32c(piece, crc)
        return Batch(position, header, crc, None)

    def _is_sound(self, position: int) -> bool:
        try:
            return self._batch(position, self._header(position)).sound
        except CorruptRecord:
            return False

    def _only_zeros(self, position: int) -> bool:
        return not any(piece.strip(b"\0") for piece in self._pieces(position, self.end))

    def _pieces(self, position: int, end: int) -> Iterator[bytes]:
        while position < end and (piece := read_exactly(self._fd, position, min(WINDOW, end - position))):
            yield piece
            position += len(piece)

    def _bytes(self, position: int, size: int) -> memoryview:
        start = position - self._start
        if start < 0 or start + size > len(self._window):
            wanted = min(max(size, WINDOW), self.end - position)
            self._window = memoryview(read_exactly(self._fd, position, wanted))
            self._start, start = position, 0
            if len(self._window) < size:
                raise _CutShort("the file was cut while it was read")
        return self._window[start : start + size]


class _CutShort(CorruptRecord):
    """The file ends before the batch does."""


@contextmanager
def open_readonly(path: Path) -> Iterator[int]:
    """A file descriptor that cannot write. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a fifo of that name must not block
    try:
        yield fd
    finally:
        os.close(fd)
