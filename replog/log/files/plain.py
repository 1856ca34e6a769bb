"""Opens files whose names anybody may have taken: a FIFO would be waited for, a device may do anything."""

import errno
import os
import stat
from pathlib import Path


def open_plain(path: Path | str, flags: int) -> int:
    """Open a regular file or a directory, without waiting. OSError, which names it, for anything else."""
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
