"""Exact reads and writes, at a position."""

import os
from collections.abc import Sequence
from contextlib import suppress

from replog.log.errors import NO_ROOM
from replog.log.offsets import Buffer


def read_exactly(fd: int, position: int, size: int) -> bytes:
    """Read `size` bytes at `position`, fewer only at the end of the file."""
    data = os.pread(fd, size, position)
    if len(data) == size or not data:
        return data
    pieces = [data]
    missing = size - len(data)
    while missing and (data := os.pread(fd, missing, position + size - missing)):
        pieces.append(data)
        missing -= len(data)
    return b"".join(pieces)


def read_into(fd: int, position: int, buffer: memoryview) -> int:
    """Fill `buffer` with the bytes at `position` and return their count, less only at the end of the file."""
    done = os.preadv(fd, [buffer], position)
    while done < len(buffer) and (more := os.preadv(fd, [buffer[done:]], position + done)):
        done += more
    return done


def write_exactly(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write all of `buffers` at the end of a file, if possible in one system call, and return the byte count. If there
    is no room for all, cut the written part off again."""
    size = sum(map(len, buffers))
    try:
        written = os.pwritev(fd, buffers, position)
        while written < size:
            written += os.pwrite(fd, memoryview(b"".join(buffers))[written:], position + written)
    except OSError as error:
        if error.errno in NO_ROOM:
            with suppress(OSError):  # the next write replaces the rest, or the next start cuts it
                os.ftruncate(fd, position)
        raise
    return size
