"""Limits how many files of logs this process holds open: it keeps those used last. For any thread.

Write-back errors: data are fsynced through a descriptor that was open when they were written. It reports every error
since (Linux 4.13). So files with unsynced data are closed last. If too many of them are in use, the one used least
recently is closed unsynced. It comes first in `to_sync`, which a broker asks for every second. Its next descriptor
reports errors that no other has reported, unless the kernel has dropped the inode meanwhile. Indexes have no such
promise: what the disk loses of them is found by the `.log`, and made again."""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import TypeVar

from replog.log.errors import NO_ROOM, OUT_OF_DESCRIPTORS, LogStorageError, storage_error, storage_errors
from replog.log.files import cold
from replog.log.files.filesystem import open_plain, write_exactly
from replog.log.files.tail import Tail, Tails
from replog.log.offsets import Buffer

DEFAULT_LIMIT = 256  # the tools': a quarter of the usual soft limit of 1,024

T = TypeVar("T")


class OpenFiles:
    """Open files: at most `limit`, besides those in use at this moment."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.lock = Lock()  # guards all fields here, and in every file
        self._clean: OrderedDict[OpenFile, None] = OrderedDict()  # the least recently used first
        self._unsynced: OrderedDict[OpenFile, None] = OrderedDict()  # open files with unsynced data, likewise
        self._let_go: dict[OpenFile, None] = {}  # closed with unsynced data
        self.tails = Tails()

    def __len__(self) -> int:
        return len(self._clean) + len(self._unsynced)

    def to_sync(self) -> "list[OpenFile]":
        """Return files that a thread should `sync` soon: those closed unsynced, and the oldest unsynced ones if these
        take more than half of the limit. So there is always a file to close."""
        with self.lock:
            surplus = max(len(self._unsynced) - self.limit // 2, 0)
            return [*self._let_go, *islice(self._unsynced, surplus)]

    def give_up(self) -> bool:
        """Close half of the files that are not in use, for descriptors elsewhere. False if there are none."""
        with self.lock:
            closed = self._unused((len(self) + 1) // 2)
        _close(closed)
        return bool(closed)

    # -- for OpenFile

    def open(self, file: "OpenFile", flags: int = 0) -> int:
        """Open a file that is in use already, with these `flags` too, and return its descriptor."""
        try:
            opened = with_room(file.path, lambda: open_plain(file.path, os.O_RDWR | flags), self)
        except BaseException:
            with self.lock:
                file.users -= 1
            raise
        with self.lock:
            if file.fd >= 0:  # another thread was faster
                closed = [opened]
            else:
                file.fd = opened
                (self._unsynced if file.unsynced else self._clean)[file] = None
                closed = self._unused(len(self) - self.limit)
            fd = file.fd
        _close(closed)
        return fd

    def wrote(self, file: "OpenFile") -> None:
        """The file has unsynced data. It is open, and in use."""
        with self.lock:
            self._clean.pop(file, None)
            self._unsynced[file] = None
            file.unsynced = True

    def syncing(self, file: "OpenFile") -> None:
        """The file's data so far are about to be fsynced. It is open, and in use."""
        with self.lock:
            self._let_go.pop(file, None)
            self._unsynced.pop(file, None)
            self._clean[file] = None
            file.unsynced = False

    def close(self, file: "OpenFile") -> None:
        """Close it once nobody uses it."""
        with self.lock:
            file.closing = file.users > 0
            closed = [] if file.closing else self._forget(file)
        _close(closed)

    # -- under the lock

    def used(self, file: "OpenFile") -> None:
        """The open file is now the most recently used."""
        (self._unsynced if file.unsynced else self._clean).move_to_end(file)

    def _forget(self, file: "OpenFile") -> list[int]:
        """Return its descriptor, to be closed, if it has one. Its unsynced data are given up."""
        self._let_go.pop(file, None)
        file.unsynced = file.closing = False
        return self._take(file)

    def _take(self, file: "OpenFile") -> list[int]:
        self._clean.pop(file, None)
        self._unsynced.pop(file, None)
        fd, file.fd = file.fd, -1
        return [fd] if fd >= 0 else []

    def _unused(self, count: int) -> list[int]:
        """Take up to `count` descriptors from files that nobody uses, to be closed."""
        unused = list(islice((file for file in chain(self._clean, self._unsynced) if not file.users), max(count, 0)))
        for file in unused:
            if file.unsynced:
                self._let_go[file] = None
        return [fd for file in unused for fd in self._take(file)]


def _close(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        os.close(fd)


OPEN_FILES: ContextVar[OpenFiles] = ContextVar("OPEN_FILES", default=OpenFiles())  # noqa: B039 - one for the process


def with_room(path: Path | str, work: Callable[[], T], files: OpenFiles | None = None) -> T:
    """Do `work`, which opens something at `path`. If no descriptor is left, close files of logs and try again.

    Raises TooManyOpenFiles if that does not help, and what `work` raises."""
    while True:
        try:
            return work()
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            if not (files or OPEN_FILES.get()).give_up():
                raise storage_error(Path(path), error) from error


class OpenFile:
    """A file that `with file as fd` opens if it is closed, and keeps open inside. So does each method.

    `path` may be changed after a rename."""

    __slots__ = ("_files", "_lock", "_tail", "closing", "fd", "path", "unsynced", "users")

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._files = OPEN_FILES.get()
        self._lock = self._files.lock
        self._tail: Tail | None = None  # the lock guards it, too
        self.fd = -1  # the lock guards this and what follows
        self.users = 0
        self.unsynced = False
        self.closing = False

    def __enter__(self) -> int:
        """Return the descriptor, to read and write. A file that the disk has lost is an error; it is not made again."""
        with self._lock:
            self.users += 1
            if self.fd >= 0:
                self._files.used(self)
                return self.fd
        return self._files.open(self)

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if error is not None and isinstance(error, cold.ColdRead):
            error.path = self.path
        with self._lock:
            self.users -= 1
            if not self.closing:
                return
        self._files.close(self)

    def create(self) -> None:
        """Begin with an empty file. An existing one is emptied."""
        self.close()
        with self._lock:
            self.users += 1
        self._files.open(self, os.O_CREAT | os.O_TRUNC)
        self.__exit__(None, None, None)

    def size(self) -> int:
        with self as fd:
            return os.fstat(fd).st_size

    def read(self, position: int, size: int) -> Buffer:
        """Read `size` bytes at `position`, fewer only at the end of the file. Raises ColdRead (`cold`)."""
        if self._tail is not None:
            with self._lock:
                kept = self._tail.read(position, size)
            if kept is not None:
                return kept
        with self as fd:
            return cold.read(fd, position, size)

    def write(self, buffers: Sequence[Buffer], position: int, *, promised: bool) -> int:
        """Write all buffers at `position` and return the bytes written. `promised`: a write-back error is noticed."""
        with self as fd:
            written = write_exactly(fd, buffers, position)
            if promised and not self.unsynced:
                self._files.wrote(self)  # otherwise a thread that syncs earlier data clears the mark
            return written

    def write_and_keep(self, buffer: Buffer, position: int) -> None:
        """Write promised data behind all others, and keep them in memory, because they are read soon (`tail`): do not
        change the buffer."""
        self.write([buffer], position, promised=True)
        with self._lock:
            self._tail = self._tail or Tail(self._files.tails)
            self._tail.add(buffer, position)

    def truncate(self, size: int) -> None:
        self._forget_tail()
        with self as fd:
            os.ftruncate(fd, size)

    def sync(self) -> None:
        with self as fd:
            self._files.syncing(self)
            try:
                os.fsync(fd)
            except OSError as error:
                if error.errno in NO_ROOM:  # the written data are lost
                    trouble = f"{self.path}: {error}; make room there, then restart the broker"
                    raise LogStorageError(trouble, Path(self.path), of_the_disk=True) from error
                raise

    def close(self) -> None:
        """Close it for good, once nobody uses it. Unsynced data are given up."""
        self._forget_tail()
        self._files.close(self)

    def _forget_tail(self) -> None:
        if self._tail is not None:
            with self._lock:
                self._tail.clear()


def sync_all(files: Iterable[OpenFile]) -> None:
    """fsync each; those that were removed meanwhile are skipped. Raises LogStorageError, TooManyOpenFiles."""
    for file in files:
        with storage_errors(Path(file.path)), suppress(FileNotFoundError):
            file.sync()
