"""What is on the disk leaves the memory of the operating system, and the tails that this process keeps."""

import contextlib
import ctypes
import errno
import mmap
import os
import time
from pathlib import Path

import pytest

from replog.log.files.open_files import OPEN_FILES

DEADLINE_S = 30.0
_mincore = ctypes.CDLL(None, use_errno=True).mincore


def evict(*paths: Path) -> None:
    """Skips the test where the file system cannot say what is in memory; `/dev/shm`, which is memory, cannot."""
    forget_tails()
    for path in paths:
        fd = os.open(path, os.O_RDWR)
        try:
            os.fsync(fd)
            with contextlib.suppress(BlockingIOError):  # it is there no more
                os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
            _leave(fd, path)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                pytest.skip(f"the file system of {path} does not say what is in memory")
            raise
        finally:
            os.close(fd)


def forget_tails() -> None:
    for tail in tuple(OPEN_FILES.get().tails.kept):
        tail.clear()


def _leave(fd: int, path: Path) -> None:
    """On a busy machine the kernel keeps pages that it is just handling; they are asked again."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if not _pages_in_memory(fd):
            return
        assert time.monotonic() < deadline_s, f"{path} stays in memory"
        os.sched_yield()


def _pages_in_memory(fd: int) -> int:
    """A read would tell, too, but brings what it misses."""
    size = os.fstat(fd).st_size
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    if not pages:
        return 0
    with mmap.mmap(fd, size) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = _mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), pages)
        del start
    assert not failed, os.strerror(ctypes.get_errno())
    return sum(page & 1 for page in pages)
