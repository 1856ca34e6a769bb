"""One wait for everything that was written to a file system, where the system offers it: Linux, `syncfs`.

For a thousand small files it takes a tenth of a second; their fsyncs take half a second and five times the CPU. It also
waits for other programs' writes, so it is for many files."""

import ctypes
import os
import re
from collections.abc import Callable

SINCE = (5, 8)  # older versions of Linux do not report what could not be written


def _find() -> Callable[[int], int] | None:
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if os.uname().sysname != "Linux" or release is None or tuple(map(int, release.groups())) < SINCE:
        return None
    return getattr(ctypes.CDLL(None), "syncfs", None)


_syncfs = _find()


def sync_filesystem(fd: int) -> bool:
    """Make everything durable that was written to the file system of this file since it was opened. False if the system
    cannot do that, or if anything was lost: then each fsync must report it."""
    return _syncfs is not None and _syncfs(fd) == 0
