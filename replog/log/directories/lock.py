"""The lock of a log directory: one broker, or one tool that writes, at a time (1.1).

It consists of two locks: flock, and a POSIX record lock as Apache Kafka's brokers take. A process loses the record lock
when it closes any descriptor of the file. The flock lasts as long as the descriptor that took it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replog.log.errors import LogStorageError, storage_errors

LOCK = ".lock"


def lock(directory: Path) -> int:
    """Lock the directory until the returned descriptor is closed. Raises OSError, LogStorageError if another has it."""
    fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    if not _take(fd, fcntl.LOCK_EX):
        os.close(fd)
        raise LogStorageError(
            f"{directory} is in use by another process; stop the broker that runs on it, or use another directory"
        )
    return fd


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold `lock` for the length of a block. A directory that never had a broker is not locked."""
    with storage_errors(directory / LOCK):
        fd = lock(directory) if (directory / LOCK).exists() else -1
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def is_locked(directory: Path) -> bool:
    """Return True if another process holds the directory. Does not wait, and writes nothing. Raises OSError."""
    try:
        fd = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        return not _take(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)  # releases what was taken for an instant


def _take(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
        fcntl.lockf(fd, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX lets a system say either
        return False
    return True
