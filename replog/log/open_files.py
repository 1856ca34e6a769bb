"""Which files of logs this process holds open: at most so many, those that were used last. For any thread.

What is promised of write-back errors: data are fsynced through a descriptor that was open when they were written, which
reports every error since (Linux 4.13). So files with unsynced data are closed last. If more of them are in use at once
than may be open, the one used least recently is closed as it is, and comes first in `to_sync`, which a broker asks for
every second: the descriptor opened then reports errors that no other has reported, unless the kernel has dropped the
inode meanwhile. Indexes promise less: what the disk loses of them is found against the `.log`, and made again.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from replog.log.errors import OUT_OF_DESCRIPTORS, storage_error

if TYPE_CHECKING:
    from replog.log.open_file import OpenFile

DEFAULT_LIMIT = 256  # for tools: a quarter of the usual soft limit of 1,024

T = TypeVar("T")


class OpenFiles:
    """`limit` files at most, besides those in use at this moment."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.lock = Lock()  # of what is here, and in every file of it
        self._clean: OrderedDict[OpenFile, None] = OrderedDict()  # those open; who was used goes behind (`_unused`)
        self._unsynced: OrderedDict[OpenFile, None] = OrderedDict()  # the same of those with unsynced data
        self._let_go: dict[OpenFile, None] = {}  # closed with unsynced data

    def __len__(self) -> int:
        """How many are open."""
        return len(self._clean) + len(self._unsynced)

    def to_sync(self) -> "list[OpenFile]":
        """What a thread should `sync` soon: those closed with unsynced data, and the oldest of the others with such
        data if they take more than half of the room, so that there is always something to close."""
        with self.lock:
            surplus = max(len(self._unsynced) - self.limit // 2, 0)
            return [*self._let_go, *islice(self._unsynced, surplus)]

    def give_up(self) -> bool:
        """Somebody else needs descriptors: close half of what is not in use. False if that is nothing."""
        with self.lock:
            closed = self._unused((len(self) + 1) // 2)
        _close(closed)
        return bool(closed)

    # -- for OpenFile

    def open(self, file: "OpenFile", flags: int = 0) -> int:
        """The descriptor of a file that is in use already and is not open, with these `flags` too."""
        try:
            opened = with_room(file.path, lambda: os.open(file.path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644), self)
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
        """It has unsynced data; it is open, and in use."""
        with self.lock:
            self._clean.pop(file, None)
            self._unsynced[file] = None
            file.unsynced = True

    def syncing(self, file: "OpenFile") -> None:
        """What was written until now is about to be fsynced; it is open, and in use."""
        with self.lock:
            self._let_go.pop(file, None)
            self._unsynced.pop(file, None)
            self._clean[file] = None
            file.unsynced = False

    def close(self, file: "OpenFile") -> None:
        """Once nobody uses it."""
        with self.lock:
            file.closing = file.users > 0
            closed = [] if file.closing else self._forget(file)
        _close(closed)

    # -- under the lock

    def _forget(self, file: "OpenFile") -> list[int]:
        """Its descriptor if it has one, which is to be closed; of its data nothing is promised any more."""
        self._let_go.pop(file, None)
        file.unsynced = file.closing = False
        return self._take(file)

    def _take(self, file: "OpenFile") -> list[int]:
        self._clean.pop(file, None)
        self._unsynced.pop(file, None)
        fd, file.fd = file.fd, -1
        return [fd] if fd >= 0 else []

    def _unused(self, count: int) -> list[int]:
        """Descriptors of files that nobody uses, no longer theirs: `count`, if there are so many.

        Whoever was used since it was last looked at gets a second chance, at the end of the line.
        """
        found: list[int] = []
        for files in (self._clean, self._unsynced):
            for _ in range(2 * len(files)):
                if len(found) >= count:
                    return found
                if not files:
                    break
                file = next(iter(files))
                if file.users or file.recent:
                    file.recent = False
                    files.move_to_end(file)
                    continue
                if file.unsynced:
                    self._let_go[file] = None
                found += self._take(file)
        return found


def _close(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        os.close(fd)


OPEN_FILES: ContextVar[OpenFiles] = ContextVar("OPEN_FILES", default=OpenFiles())  # noqa: B039 - one for the process


def with_room(path: Path | str, work: Callable[[], T], files: OpenFiles | None = None) -> T:
    """`work`, which opens something at `path`; once again, with files of logs closed, if there was no descriptor.

    Raises TooManyOpenFiles if that did not help, and what `work` raises.
    """
    while True:
        try:
            return work()
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            if not (files or OPEN_FILES.get()).give_up():
                raise storage_error(Path(path), error) from error
