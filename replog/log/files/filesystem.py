"""Calls of the system: opening what may be no file, exact reads and writes, and one wait for all that was written. Work
on the files of many logs: all are written first, then waited for. Very many share one wait for their file system."""

import ctypes
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from replog.errors import ReplogError
from replog.log.errors import NO_ROOM
from replog.log.offsets import Buffer

SINCE = (5, 8)  # older versions of Linux do not report what could not be written


def _find() -> Callable[[int], int] | None:
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if os.uname().sysname != "Linux" or release is None or tuple(map(int, release.groups())) < SINCE:
        return None
    return getattr(ctypes.CDLL(None), "syncfs", None)


_syncfs = _find()


def sync_filesystem(fd: int) -> bool:
    """Make everything durable that was written to the file system of this file since it was opened. False if the system
    cannot do that, or if anything was lost: then each fsync must report it.

    For a thousand small files `syncfs` takes a tenth of a second; their fsyncs take half a second and five times the
    CPU. It also waits for other programs' writes, so it is for many files."""
    return _syncfs is not None and _syncfs(fd) == 0


def open_plain(path: Path | str, flags: int) -> int:
    """Open a regular file or a directory. OSError, which names it, for anything else.

    Anybody may have taken the name: a FIFO would be waited for, a device may do anything."""
    strange = OSError(errno.EINVAL, "Not a regular file", str(path))
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO and stat.S_IFMT(os.stat(path).st_mode) in (stat.S_IFIFO, stat.S_IFSOCK):
            raise strange from None  # otherwise it looks like a disk that is gone
        raise
    if stat.S_IFMT(os.fstat(fd).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        os.close(fd)
        raise strange
    return fd


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


MANY = 300  # so many logs make one wait cheaper, though it may be seconds for other programs' writes

K = TypeVar("K")
T = TypeVar("T")


class GroupCommit(Generic[K]):
    """Takes steps for each of many things. A thing for which a step fails is left out of the later ones."""

    def __init__(self, things: Iterable[K]) -> None:
        self._left = dict.fromkeys(things)
        self.failures: dict[K, ReplogError] = {}

    def each(self, step: Callable[[K], T]) -> dict[K, T]:
        done: dict[K, T] = {}
        for _ in self.steps(step, done):
            pass
        return done

    def steps(self, step: Callable[[K], T], done: dict[K, T]) -> Iterator[None]:
        """Take the step for one thing after the other, as `each`."""
        for thing in list(self._left):
            try:
                done[thing] = step(thing)
            except ReplogError as error:
                self.failures[thing] = error
                del self._left[thing]
            yield

    def are_durable(self, fd: int) -> bool:
        """Make everything that was written durable at once, if there are at least MANY things, on the file system of
        `fd`. False if each of them still needs its fsyncs."""
        return len(self._left) >= MANY and sync_filesystem(fd)
