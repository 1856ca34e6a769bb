"""The lock of a log directory: one broker, or one tool that writes, at a time (1.1).

Taken in two ways at once: by flock, and as a POSIX record lock, which is what Apache Kafka's brokers take. A process
loses the latter when it closes any descriptor of the file; the former holds as long as the one that took it is open.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replog.log.errors import LogStorageError, storage_errors

LOCK = ".lock"


def lock(directory: Path) -> int:
    """Hold the directory until the descriptor returned is closed. Raises OSError, LogStorageError if another has it."""
    fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    if not _take(fd, fcntl.LOCK_EX):
        os.close(fd)
        raise LogStorageError(
            f"{directory} is in use by another process; stop the broker that runs on it, or use another directory"
        )
    return fd


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """`lock` for the length of a block; there is nothing to hold where no broker ever was."""
    with storage_errors(directory / LOCK):
        fd = lock(directory) if (directory / LOCK).exists() else -1
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def is_locked(directory: Path) -> bool:
    """Whether another process holds the directory. Does not wait, and writes nothing. Raises OSError."""
    try:
        fd = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        return not _take(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)  # lets go of what was taken for an instant


def _take(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
        fcntl.lockf(fd, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX lets a system say either
        return False
    return True
