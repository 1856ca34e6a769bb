"""What is on the disk leaves the memory of the operating system."""

import errno
import os
from pathlib import Path

import pytest


def evict(*paths: Path) -> None:
    """Skips the test where the file system cannot say what is in memory; `/dev/shm`, which is memory, cannot."""
    for path in paths:
        fd = os.open(path, os.O_RDWR)
        try:
            os.fsync(fd)
            os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                pytest.skip(f"the file system of {path} does not say what is in memory")
        finally:
            os.close(fd)
