"""Small things about files: names, exact reads and writes, atomic replacement, fsync."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from replog.log.offsets import Buffer
from replog.log.open_files import with_room

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
DIGEST_SUFFIX = ".digest"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
NEW_SUFFIX = ".tmp"  # of what is to take a name that is not free yet


def segment_file_name(base_offset: int, suffix: str) -> str:
    """The segment's base offset as 20 digits, and the suffix (1.2)."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """The base offset in a segment file's name, or None if it is no such name."""
    digits = name.partition(".")[0]
    if len(digits) != 20 or not digits.isascii() or not digits.isdigit():
        return None
    offset = int(digits)
    return offset if offset < 2**63 else None


def files_by_offset(directory: Path, suffix: str = "") -> list[tuple[int, str]]:
    """Base offset and name of each file that is named after one and ends with `suffix`, in no order.

    A log may have very many files: names alone, no paths.
    """
    names = with_room(directory, lambda: os.listdir(directory))
    named = [(base_offset_of(name), name) for name in names if name.endswith(suffix)]
    return [(base, name) for base, name in named if base is not None]


def open_fd(path: Path | str, flags: int) -> int:
    """A descriptor of one's own, for a short time: files of logs make room for it."""
    return with_room(path, lambda: os.open(path, flags | os.O_CLOEXEC, 0o644))


@contextmanager
def open_regular(path: Path) -> Iterator[int]:
    """A descriptor to read from. OSError for what is no regular file: opening a FIFO would wait for a writer."""
    fd = open_fd(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        yield fd
    finally:
        os.close(fd)


def read_regular(path: Path, most: int) -> bytes:
    """What a regular file holds, but no more than the first `most` bytes of it. Raises OSError."""
    with open_regular(path) as fd:
        return read_exactly(fd, 0, min(os.fstat(fd).st_size, most))


def read_exactly(fd: int, position: int, size: int) -> bytes:
    """`size` bytes at `position`, fewer only at the end of the file."""
    data = os.pread(fd, size, position)
    if len(data) == size or not data:
        return data
    pieces = [data]
    missing = size - len(data)
    while missing and (data := os.pread(fd, missing, position + size - missing)):
        pieces.append(data)
        missing -= len(data)
    return b"".join(pieces)


def read_into(fd: int, position: int, buffer: memoryview) -> int:
    """Fill `buffer` with the bytes at `position`; return their count, less only at the end of the file."""
    done = os.preadv(fd, [buffer], position)
    while done < len(buffer) and (more := os.preadv(fd, [buffer[done:]], position + done)):
        done += more
    return done


def write_fully(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write all of `buffers` at `position`, in one system call where the system takes them; return the byte count."""
    if len(buffers) == 1:
        write_exactly(fd, buffers[0], position)
        return len(buffers[0])
    size = sum(map(len, buffers))
    written = os.pwritev(fd, buffers, position)
    if written < size:
        write_exactly(fd, memoryview(b"".join(buffers))[written:], position + written)
    return size


def write_exactly(fd: int, data: Buffer, position: int) -> None:
    """Write all of `data` at `position`."""
    written = os.pwrite(fd, data, position)
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], position + written)


def fsync_directory(directory: Path) -> None:
    """Make the names in `directory` durable."""
    fsync_path(directory)


def fsync_path(path: Path) -> None:
    """fsync a file or directory by name."""
    fd = open_fd(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_file(path: Path | str, content: bytes = b"") -> None:
    """Write a file that nobody knows of yet, without waiting for the disk."""
    fd = open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        if content:
            write_exactly(fd, content, 0)
    finally:
        os.close(fd)


def has_records(directory: Path) -> bool:
    """Whether there is a log with anything in it, or with anything before it."""
    return any(base or (directory / name).stat().st_size for base, name in files_by_offset(directory, LOG_SUFFIX))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` so that a crash leaves the old content or the new: `.tmp`, fsync, rename, fsync directory."""
    replace_file(path, content)
    fsync_directory(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """The same, for a caller who fsyncs the directory once for all that it does there."""
    write_beside(path, content)
    put_in_place(path)


def write_beside(path: Path, content: bytes) -> None:
    """Write what is to replace `path`, without waiting for the disk.

    Who replaces many files writes all of them first: the first fsync then takes most of what the others need along.
    """
    make_file(_beside(path), content)


def put_in_place(path: Path, *, fsync: bool = True) -> None:
    """fsync what was written beside `path`, and give it that name; then fsync the directory."""
    if fsync:
        fsync_path(_beside(path))
    os.replace(_beside(path), path)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")
