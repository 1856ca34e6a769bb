"""The lock of a log directory, as seen by tools that are not its broker (1.1).

Ours is taken with flock; Apache Kafka's is a POSIX record lock, as Java takes them. Both are asked for.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replog.log.errors import LogStorageError, storage_errors

LOCK = ".lock"


def is_locked(directory: Path) -> bool:
    """Whether a running broker holds the directory. Does not wait, and changes nothing. Raises OSError."""
    try:
        fd = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        return not _take(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)  # lets go of what was taken for an instant


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keep brokers out of the directory. Raises LogStorageError if one is in; nothing to hold if it never had one."""
    with storage_errors(directory / LOCK):
        try:
            fd = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            fd = -1
    try:
        if fd >= 0 and not _take(fd, fcntl.LOCK_EX):
            raise LogStorageError(f"{directory} is in use by a running broker; stop that broker first")
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def _take(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
        fcntl.lockf(fd, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX lets a system say either
        return False
    return True
