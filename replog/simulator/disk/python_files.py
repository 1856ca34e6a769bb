"""Files and directory entries as Python's `open` and `os.scandir` return them on a simulated disk."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

_scandir = os.scandir  # the real function, which the simulated disk replaces in `os`


class RawFile(io.RawIOBase):
    """Reads and writes through `os`, otherwise the simulated disk would not see it, as with `io.FileIO`.

    Once its process is dead it does nothing: its descriptor is closed, and may be another file's by now."""

    def __init__(self, fd: int, is_open: Callable[[], bool], *, readable: bool) -> None:
        self._fd = fd
        self._is_open = is_open
        self._readable = readable

    def readable(self) -> bool:
        return self._readable

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def readinto(self, buffer: Any) -> int:
        return os.readv(self._fd, [buffer])

    def write(self, data: Any) -> int:
        return os.write(self._fd, data) if self._is_open() else len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._fd, offset, whence) if self._is_open() else 0

    def truncate(self, size: int | None = None) -> int:
        if size is None:
            size = self.tell()
        os.ftruncate(self._fd, size)
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._is_open():
                os.close(self._fd)


class SortedEntries(Iterator[Any], AbstractContextManager[Any]):
    """The entries of `os.scandir`, sorted by name, so that their order does not depend on the file system."""

    def __init__(self, path: Any) -> None:
        with _scandir(path) as entries:
            self._entries = iter(sorted(entries, key=lambda entry: entry.name))

    def __next__(self) -> Any:
        return next(self._entries)

    def __exit__(self, *_: object) -> None: ...
