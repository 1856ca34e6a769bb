"""Exact reads and writes, at a position."""

import os
from collections.abc import Sequence
from contextlib import suppress

from replog.log.errors import NO_ROOM
from replog.log.offsets import Buffer


def read_exactly(fd: int, position: int, size: int) -> bytes:
    """`size` bytes at `position`, fewer only at the end of the file."""
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
    """Fill `buffer` with the bytes at `position`; return their count, less only at the end of the file."""
    done = os.preadv(fd, [buffer], position)
    while done < len(buffer) and (more := os.preadv(fd, [buffer[done:]], position + done)):
        done += more
    return done


def write_exactly(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write all of `buffers` at the end of a file, in one system call where the system takes them; return the byte
    count. Where there is no room for all, what was written is cut off again."""
    size = sum(map(len, buffers))
    try:
        written = os.pwritev(fd, buffers, position)
        while written < size:
            written += os.pwrite(fd, memoryview(b"".join(buffers))[written:], position + written)
    except OSError as error:
        if error.errno in NO_ROOM:
            with suppress(OSError):  # what is left is overwritten by the next write, or cut by the next start
                os.ftruncate(fd, position)
        raise
    return size
