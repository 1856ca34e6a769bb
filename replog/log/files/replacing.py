"""Files that matter are replaced, never rewritten: temporary name, fsync, rename, fsync of the directory."""

import os
from pathlib import Path

from replog.log.files.filesystem import write_exactly
from replog.log.files.opening import open_fd


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
    replace_file(path, content)
    fsync_directory(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Replace `path`. The caller fsyncs the directory, once for several files."""
    write_beside(path, content)
    put_in_place(path)


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
