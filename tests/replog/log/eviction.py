"""What is on the disk leaves the memory of the operating system, and the tails that this process keeps."""

import ctypes
import errno
import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from replog.log.files.open_files import OPEN_FILES

DEADLINE_S = 30.0
_COLD = set[tuple[int, int]]()  # inode and page
_mincore = ctypes.CDLL(None, use_errno=True).mincore


def evict(*paths: Path) -> None:
    """Skips the test where the file system cannot say what is in memory; `/dev/shm`, which is memory, cannot."""
    forget_tails()
    for path in paths:
        fd = os.open(path, os.O_RDWR)
        try:
            os.fsync(fd)
            size = os.fstat(fd).st_size
            os.preadv(fd, [bytearray(1)], size, os.RWF_NOWAIT)  # behind the end, which makes the system read nothing
            os.pread(fd, size, 0)  # waits for what it is just reading already: `mincore` does not see that
            _leave(fd, path)
            _COLD.update(_pages(fd, 0, size))
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                pytest.skip(f"the file system of {path} does not say what is in memory")
            raise
        finally:
            os.close(fd)


@pytest.fixture
def evicted_is_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, what `evict` let go of is cold until somebody waits for it. The system's own answer is by chance
    on a fast disk: asked for bytes that it lacks, it begins to read them, and may have them before it answers."""
    pread, preadv = os.pread, os.preadv
    _COLD.clear()

    def wait_for(fd: int, size: int, position: int) -> bytes:
        _COLD.difference_update(_pages(fd, position, size))
        return pread(fd, size, position)

    def ask_first(fd: int, buffers: Sequence[bytearray], position: int, flags: int = 0) -> int:
        pages = _pages(fd, position, sum(map(len, buffers)))
        if not flags & os.RWF_NOWAIT:
            _COLD.difference_update(pages)
        elif not _COLD.isdisjoint(pages):
            raise BlockingIOError
        return preadv(fd, buffers, position, flags)

    monkeypatch.setattr(os, "pread", wait_for)
    monkeypatch.setattr(os, "preadv", ask_first)


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


def _pages(fd: int, position: int, size: int) -> list[tuple[int, int]]:
    inode = os.fstat(fd).st_ino
    return [(inode, page) for page in range(position // mmap.PAGESIZE, -(-(position + size) // mmap.PAGESIZE))]


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
