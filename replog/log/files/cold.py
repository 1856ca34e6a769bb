"""Reads that do not wait for the disk: they name the bytes that a thread must bring into memory (divergence 34).

Linux says what is in memory (`RWF_NOWAIT`). Where a file system cannot say it, long reads count as not in memory,
unless all of it is memory."""

import errno
import os
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import NamedTuple

from replog.common.buffers import unwritten
from replog.config.properties import MAX_LONG
from replog.log.files.filesystem import read_exactly

LONG_BYTES = 256 << 10  # so long reads count as cold where the file system does not say
BROUGHT_BYTES = 1 << 20  # the least to bring: the next bytes are wanted next


class ByteRange(NamedTuple):
    """A range of bytes in a file."""

    position: int
    end: int


ANYTHING, NOTHING = ByteRange(0, MAX_LONG), ByteRange(0, 0)
_WAITS_FOR: ContextVar[ByteRange] = ContextVar("WAITS_FOR", default=ANYTHING)


class ColdRead(Exception):
    """Some bytes are not in memory; nothing is wrong. Call `opening.bring`, then read again."""

    path = ""  # the file sets it when this passes through it

    def __init__(self, position: int, size: int) -> None:
        self.byte_range = ByteRange(position, position + max(size, BROUGHT_BYTES))
        super().__init__(self.byte_range)


class WaitingFor:
    """Inside this context, reads within `byte_range` may wait for the disk; others raise ColdRead instead."""

    __slots__ = ("_before", "_byte_range")

    def __init__(self, byte_range: ByteRange) -> None:
        self._byte_range = byte_range

    def __enter__(self) -> None:
        self._before = _WAITS_FOR.set(self._byte_range)

    def __exit__(self, *_: object) -> None:
        _WAITS_FOR.reset(self._before)


def read(fd: int, position: int, size: int) -> bytes | bytearray:
    """Read exactly. Raises ColdRead unless all bytes are in memory, or may be waited for."""
    waits = _WAITS_FOR.get()
    if waits.position <= position and position + size <= waits.end:
        return read_exactly(fd, position, size)
    buffer = unwritten(size)
    try:
        if os.preadv(fd, [buffer], position, os.RWF_NOWAIT) == size:
            return buffer
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        if size < LONG_BYTES or _is_memory(os.fstat(fd).st_dev):
            return read_exactly(fd, position, size)
    raise ColdRead(position, size)


@cache
def _is_memory(device: int) -> bool:
    """Return True if the file system of this device, which does not know RWF_NOWAIT, has no disk."""
    named = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError):
        for mount in Path("/proc/self/mountinfo").read_bytes().decode(errors="replace").splitlines():
            place, _, kind = mount.partition(" - ")
            if place.split()[2] == named:
                return kind.split()[0] in ("tmpfs", "ramfs")
    return False
