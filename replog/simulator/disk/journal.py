"""A journal of the changes to one host's files that were not synced yet, so that a power loss can take them back.

Every change is made to the real files at once, and the journal keeps how to undo it. A power loss keeps some of the
oldest changes of a file's content, the last of these perhaps in part, and some of the oldest changes of each
directory's names."""

import heapq
import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

# the real functions, which the simulated disk replaces in `os`
_close, _ftruncate, _link, _lstat, _mkdir = os.close, os.ftruncate, os.link, os.lstat, os.mkdir
_open, _pwrite, _rename, _rmdir, _unlink = os.open, os.pwrite, os.rename, os.rmdir, os.unlink

HOLE = 0.15  # the share of files with unsynced content in which a power loss leaves zeros


@dataclass(slots=True)
class FileChange:
    """A change of a file's content: `length` bytes at `position` replaced `old`; the file had `size` bytes before."""

    position: int
    length: int
    old: bytes
    size: int


@dataclass(slots=True, eq=False)
class FileState:
    """A file under any name, with the changes of its content since it was last synced."""

    size: int
    modified_s: float  # virtual time
    changes: list[FileChange] = field(default_factory=list)

    def wrote(self, position: int, length: int, old: bytes) -> None:
        self.changes.append(FileChange(position, length, old, self.size))
        self.size = max(self.size, position + length)

    def truncated(self, size: int, old: bytes) -> None:
        """Note a truncation, which may also make the file longer."""
        self.changes.append(FileChange(min(size, self.size), 0, old, self.size))
        self.size = size


@dataclass(slots=True, eq=False)
class NameChange:
    """A change of a name. Call `undo` after those of all later changes of the directory, `forget` if it is durable."""

    sequence: int
    undo: Callable[[], None]
    forget: Callable[[], None]


@dataclass(slots=True, eq=False)
class DirectoryState:
    path: str
    changes: list[NameChange] = field(default_factory=list)


def _nothing() -> None: ...


class Journal:
    """The journal of the tree at `root`; `trash`, a directory beside it, keeps deleted files that may come back."""

    def __init__(self, root: Path, trash: Path, counts: dict[str, int]) -> None:
        self.files: dict[int, FileState] = {}  # keys: inodes
        self._counts = counts
        self._root = root
        self._trash = trash
        self._directories: dict[str, DirectoryState] = {}  # keys: paths; only directories that changed
        self._sequence = itertools.count()
        self._undoing: list[tuple[int, NameChange]] = []
        self._rng: random.Random | None = None

    # changes

    def created(self, path: str) -> None:
        parent, name = self._parent(path)
        self._note(parent, lambda: self._remove(f"{parent.path}/{name}"))

    def mkdir(self, path: str, mode: int) -> None:
        _mkdir(path, mode)
        parent, name = self._parent(path)
        self._note(parent, lambda: shutil.rmtree(f"{parent.path}/{name}", ignore_errors=True))

    def rmdir(self, path: str) -> None:
        _rmdir(path)
        parent, name = self._parent(path)
        directory = self._directories.pop(path, None) or DirectoryState(path)

        def undo() -> None:
            directory.path = f"{parent.path}/{name}"
            _mkdir(directory.path)
            self._directories[directory.path] = directory
            self._lose_names(directory)

        self._note(parent, undo, lambda: self._forget(directory))

    def unlink(self, path: str) -> None:
        kept = self._keep(path)
        _unlink(path)
        parent, name = self._parent(path)
        self._note(parent, lambda: _rename(kept, f"{parent.path}/{name}"), lambda: self._remove(kept))

    def rename(self, path: str, target: str) -> None:
        replaced = self._keep(target) if os.path.isfile(target) else None
        is_directory = os.path.isdir(path)
        try:
            _rename(path, target)
        except OSError:
            if replaced is not None:
                _unlink(replaced)
            raise
        if is_directory:
            self._moved(path, target)
        source, source_name = self._parent(path)
        parent, name = self._parent(target)

        def undo() -> None:
            now, before = f"{parent.path}/{name}", f"{source.path}/{source_name}"
            _rename(now, before)
            if is_directory:
                self._moved(now, before)
            if replaced is not None:
                _rename(replaced, now)

        self._note(parent, undo, _nothing if replaced is None else lambda: self._remove(replaced))

    def synced(self, path: str) -> None:
        """Make the names in that directory durable."""
        directory = self._directories.pop(path, None)
        if directory is not None:
            self._forget(directory)

    def synced_all(self) -> None:
        for state in self.files.values():
            state.changes.clear()
        for path in list(self._directories):
            self.synced(path)

    # a power loss

    def power_loss(self, rng: random.Random) -> None:
        """Take back some of the changes that are not durable, and make the rest durable."""
        self._rng = rng
        paths = {_lstat(path).st_ino: path for path in self._all_files()}
        for inode, state in self.files.items():
            if state.changes and inode in paths:
                self._lose_content(paths[inode], state)
        for directory in list(self._directories.values()):
            self._lose_names(directory)
        while self._undoing:
            _, change = heapq.heappop(self._undoing)
            try:
                change.undo()
                self._count("names lost")
            except OSError:  # a fault has changed the files meanwhile
                self._count("names that could not be lost")
        for directory in list(self._directories.values()):
            self._forget(directory)
        self._directories.clear()

    def removed(self, path: str) -> None:
        """Forget a directory that was removed from outside, with all that was in it."""
        inside = path + "/"
        for known in [known for known in self._directories if known == path or known.startswith(inside)]:
            self._forget(self._directories.pop(known))

    def _all_files(self) -> Iterator[str]:
        for top in (self._root, self._trash):
            for directory, _, names in os.walk(top):
                for name in names:
                    yield f"{directory}/{name}"

    def _kept(self, count: int) -> int:
        assert self._rng is not None
        draw = self._rng.random()
        return 0 if draw < 0.25 else count if draw < 0.5 else self._rng.randint(0, count)

    def _lose_content(self, path: str, state: FileState) -> None:
        rng = self._rng
        assert rng is not None
        synced = min(change.size for change in state.changes)
        before = state.size
        kept = self._kept(len(state.changes))
        fd = _open(path, os.O_RDWR)
        try:
            for number in range(len(state.changes) - 1, kept - 1, -1):
                change = state.changes[number]
                survived = rng.randint(0, change.length) if number == kept else 0
                self._count("files torn", int(0 < survived < change.length))
                if change.old[survived:]:
                    _pwrite(fd, change.old[survived:], change.position + survived)
                state.size = max(change.size, change.position + survived) if survived else change.size
                _ftruncate(fd, state.size)
            if synced < state.size and rng.random() < HOLE:
                start = rng.randint(synced, state.size - 1)
                # One zero byte would be bit rot, not a power loss, and may lie where no CRC covers it (RB-2).
                length = min(state.size - start, rng.choice((8, 16, 512, 4096, 1 << 30)))
                _pwrite(fd, bytes(length), start)
                self._count("holes")
        finally:
            _close(fd)
        state.changes.clear()
        self._count("bytes lost", max(0, before - state.size))

    def _lose_names(self, directory: DirectoryState) -> None:
        kept = self._kept(len(directory.changes))
        for change in directory.changes[kept:]:
            heapq.heappush(self._undoing, (-change.sequence, change))
        del directory.changes[kept:]

    # the books

    def _count(self, kind: str, by: int = 1) -> None:
        if by:
            self._counts[kind] = self._counts.get(kind, 0) + by

    def _parent(self, path: str) -> tuple[DirectoryState, str]:
        parent, _, name = path.rpartition("/")
        directory = self._directories.get(parent)
        if directory is None:
            directory = self._directories[parent] = DirectoryState(parent)
        return directory, name

    def _note(self, parent: DirectoryState, undo: Callable[[], None], forget: Callable[[], None] = _nothing) -> None:
        parent.changes.append(NameChange(next(self._sequence), undo, forget))

    def _forget(self, directory: DirectoryState) -> None:
        for change in directory.changes:
            change.forget()
        directory.changes.clear()

    def _moved(self, path: str, target: str) -> None:
        """Move the state of a directory, and of those in it, to the new path."""
        inside = path + "/"
        for known in [known for known in self._directories if known == path or known.startswith(inside)]:
            directory = self._directories.pop(known)
            directory.path = target + known[len(path) :]
            self._directories[directory.path] = directory

    def _keep(self, path: str) -> str:
        kept = f"{self._trash}/{next(self._sequence)}"
        _link(path, kept)
        return kept

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            status = _lstat(path)
            _unlink(path)
            if status.st_nlink == 1:
                self.files.pop(status.st_ino, None)
