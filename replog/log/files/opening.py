"""Opens files and directories for a short time: files of logs make room for them."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from replog.log.errors import TooManyOpenFiles
from replog.log.files.cold import ColdRead
from replog.log.files.filesystem import open_plain, read_exactly
from replog.log.files.names import LOG_SUFFIX, base_offset_of
from replog.log.files.open_files import with_room

PIECE_BYTES = 256 << 10


def files_by_offset(directory: Path, suffix: str = "") -> list[tuple[int, str]]:
    """Return base offset and name of each file that is named after one and ends with `suffix`, in no order.

    A log may have very many files, so there are no paths."""
    names = with_room(directory, lambda: os.listdir(directory))
    named = [(base_offset_of(name), name) for name in names if name.endswith(suffix)]
    return [(base, name) for base, name in named if base is not None]


def open_fd(path: Path | str, flags: int) -> int:
    """Open a plain file for a short time: files of logs make room for it."""
    return with_room(path, lambda: open_plain(path, flags))


@contextmanager
def open_regular(path: Path) -> Iterator[int]:
    """Yield a descriptor to read from. OSError for anything but a regular file."""
    fd = open_fd(path, os.O_RDONLY)
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        yield fd
    finally:
        os.close(fd)


def read_regular(path: Path, most: int) -> bytes:
    """Read at most the first `most` bytes of a regular file. Raises OSError."""
    with open_regular(path) as fd:
        return read_exactly(fd, 0, min(os.fstat(fd).st_size, most))


def has_records(directory: Path) -> bool:
    """Return True if there is a log with anything in it, or with anything before it."""
    return any(base or (directory / name).stat().st_size for base, name in files_by_offset(directory, LOG_SUFFIX))


def bring(cold: ColdRead) -> None:
    """Wait until the disk has brought the stretch into memory. The next reader meets the errors."""
    position, end = cold.byte_range
    piece = bytearray(PIECE_BYTES)
    with suppress(OSError, TooManyOpenFiles):
        fd = open_fd(cold.path, os.O_RDONLY)
        try:
            while position < end and (count := os.preadv(fd, [piece], position)):
                position += count
        finally:
            os.close(fd)
