"""Opens files and directories for a short time: files of logs make room for them. Files that matter are replaced, never
rewritten: temporary name, fsync, rename, fsync of the directory."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from replog.log.errors import TooManyOpenFiles
from replog.log.files.cold import ColdRead
from replog.log.files.filesystem import open_plain, read_exactly, write_exactly
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


def fsync_directory(directory: Path) -> None:
    """Make the names in `directory` durable."""
    fsync_path(directory)


def fsync_path(path: Path) -> None:
    fd = open_fd(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_file(path: Path | str, content: bytes = b"") -> None:
    """Write a new file, without waiting for the disk."""
    fd = open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        if content:
            write_exactly(fd, [content], 0)
    finally:
        os.close(fd)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` so that a crash leaves the old content or the new: `.tmp`, fsync, rename, fsync directory."""
    write_beside(path, content)
    put_in_place(path)
    fsync_directory(path.parent)


def write_beside(path: Path, content: bytes) -> None:
    """Write the replacement of `path`, without waiting for the disk.

    To replace many files, write all of them first: the first fsync then makes most of them durable."""
    make_file(_beside(path), content)


def put_in_place(path: Path, *, fsync: bool = True) -> None:
    """fsync the replacement of `path`, and rename it to `path`. The caller fsyncs the directory."""
    if fsync:
        fsync_path(_beside(path))
    os.replace(_beside(path), path)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")
