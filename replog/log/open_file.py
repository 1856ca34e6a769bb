"""A file of a log, open while it is used and, as `open_files` can afford it, in between."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from replog.log import cold
from replog.log.errors import storage_errors
from replog.log.files import write_fully
from replog.log.offsets import Buffer
from replog.log.open_files import OPEN_FILES


class OpenFile:
    """`with file as fd` opens it if it was closed, and holds it open until then; so does each method.

    `path` may be changed when the file was renamed.
    """

    __slots__ = ("_files", "_lock", "closing", "fd", "path", "recent", "unsynced", "users")

    def __init__(self, path: Path | str) -> None:
        """Nothing is opened yet."""
        self.path = str(path)
        self._files = OPEN_FILES.get()
        self._lock = self._files.lock
        self.fd = -1  # this and what follows is under the lock
        self.users = 0
        self.recent = False
        self.unsynced = False
        self.closing = False

    def __enter__(self) -> int:
        """The descriptor, to read and write. One that the disk has lost is an error, and not made again."""
        with self._lock:
            self.users += 1
            self.recent = True
            if self.fd >= 0:
                return self.fd
        return self._files.open(self)

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if isinstance(error, cold.ColdRead):
            error.path = self.path
        with self._lock:
            self.users -= 1
            if not self.closing:
                return
        self._files.close(self)

    def create(self) -> None:
        """Begin with an empty file, whatever stood there."""
        self.close()
        with self._lock:
            self.users += 1
            self.recent = True
        self._files.open(self, os.O_CREAT | os.O_TRUNC)
        self.__exit__(None, None, None)

    def size(self) -> int:
        with self as fd:
            return os.fstat(fd).st_size

    def read(self, position: int, size: int) -> bytes | bytearray:
        """`size` bytes at `position`, fewer only at the end of the file. Raises ColdRead (`cold`)."""
        with self as fd:
            return cold.read(fd, position, size)

    def write(self, buffers: Sequence[Buffer], position: int, *, promised: bool) -> int:
        """Write all of them at `position`; return how many bytes that were. Whether of these it is `promised` that no
        write-back error is overlooked."""
        with self as fd:
            written = write_fully(fd, buffers, position)
            if promised and not self.unsynced:
                self._files.wrote(self)  # not before: a thread may be syncing what was there
            return written

    def truncate(self, size: int) -> None:
        """Cut it to `size` bytes."""
        with self as fd:
            os.ftruncate(fd, size)

    def sync(self) -> None:
        """fsync."""
        with self as fd:
            self._files.syncing(self)
            os.fsync(fd)

    def close(self) -> None:
        """Let go of it, once nobody uses it, for good: unsynced data are given up, or were synced."""
        self._files.close(self)


def sync_all(files: Iterable[OpenFile]) -> None:
    """fsync each; those that were removed meanwhile are skipped. Raises LogStorageError, TooManyOpenFiles."""
    for file in files:
        with storage_errors(Path(file.path)), suppress(FileNotFoundError):
            file.sync()
