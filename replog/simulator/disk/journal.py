"""What a power loss may take back of one host's files: all that was done to them since they were last synced.

Every change is made to the real files at once; kept here is how to undo it. A file's content survives as a prefix of
what was done to it, the last change perhaps in part; so do the names in a directory, each for itself and all whole.
"""

import heapq
import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

# as they are before anything stands in for them
_close, _ftruncate, _link, _lstat, _mkdir = os.close, os.ftruncate, os.link, os.lstat, os.mkdir
_open, _pwrite, _rename, _rmdir, _unlink = os.open, os.pwrite, os.rename, os.rmdir, os.unlink

HOLE = 0.15  # how often a part of what was not synced is zeros


@dataclass(slots=True)
class FileChange:
    """Of a file's content: from `position` on `old` became `length` other bytes; it was `size` long before."""

    position: int
    length: int
    old: bytes
    size: int


@dataclass(slots=True, eq=False)
class FileState:
    """A file, whatever its name, and what was done to its content since it was last synced."""

    size: int
    modified_s: float  # in virtual time
    changes: list[FileChange] = field(default_factory=list)

    def wrote(self, position: int, length: int, old: bytes) -> None:
        self.changes.append(FileChange(position, length, old, self.size))
        self.size = max(self.size, position + length)

    def truncated(self, size: int, old: bytes) -> None:
        """To a longer one too."""
        self.changes.append(FileChange(min(size, self.size), 0, old, self.size))
        self.size = size


@dataclass(slots=True, eq=False)
class NameChange:
    """`undo` holds while the later changes of the same directory are undone; `forget` when it is durable."""

    sequence: int
    undo: Callable[[], None]
    forget: Callable[[], None]


@dataclass(slots=True, eq=False)
class DirectoryState:
    path: str
    changes: list[NameChange] = field(default_factory=list)


def _nothing() -> None: ...


class Journal:
    """Of the tree at `root`; `trash` is a directory beside it, for files that are gone and may come back."""

    def __init__(self, root: Path, trash: Path, counts: dict[str, int]) -> None:
        self.files: dict[int, FileState] = {}  # by inode
        self._counts = counts
        self._root = root
        self._trash = trash
        self._directories: dict[str, DirectoryState] = {}  # by path, those with changes
        self._sequence = itertools.count()
        self._undoing: list[tuple[int, NameChange]] = []
        self._chance: random.Random | None = None

    # what processes do

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
        """The names in that directory are durable."""
        directory = self._directories.pop(path, None)
        if directory is not None:
            self._forget(directory)

    def synced_all(self) -> None:
        """Everything is durable."""
        for state in self.files.values():
            state.changes.clear()
        for path in list(self._directories):
            self.synced(path)

    # a power loss

    def power_loss(self, chance: random.Random) -> None:
        """Leave what may be left; from then on all of it is durable."""
        self._chance = chance
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
            except OSError:  # somebody else has been at work in between
                self._count("names that could not be lost")
        for directory in list(self._directories.values()):
            self._forget(directory)
        self._directories.clear()

    def removed(self, path: str) -> None:
        """Somebody else took that directory away, with all that was in it: for good."""
        inside = path + "/"
        for known in [known for known in self._directories if known == path or known.startswith(inside)]:
            self._forget(self._directories.pop(known))

    def _all_files(self) -> Iterator[str]:
        for top in (self._root, self._trash):
            for directory, _, names in os.walk(top):
                for name in names:
                    yield f"{directory}/{name}"

    def _kept(self, count: int) -> int:
        assert self._chance is not None
        draw = self._chance.random()
        return 0 if draw < 0.25 else count if draw < 0.5 else self._chance.randint(0, count)

    def _lose_content(self, path: str, state: FileState) -> None:
        chance = self._chance
        assert chance is not None
        synced = min(change.size for change in state.changes)
        before = state.size
        kept = self._kept(len(state.changes))
        fd = _open(path, os.O_RDWR)
        try:
            for number in range(len(state.changes) - 1, kept - 1, -1):
                change = state.changes[number]
                survived = chance.randint(0, change.length) if number == kept else 0
                self._count("files torn", int(0 < survived < change.length))
                if change.old[survived:]:
                    _pwrite(fd, change.old[survived:], change.position + survived)
                state.size = max(change.size, change.position + survived) if survived else change.size
                _ftruncate(fd, state.size)
            if synced < state.size and chance.random() < HOLE:
                start = chance.randint(synced, state.size - 1)
                # No disk loses a byte alone: that would be bit rot, which may lie where no CRC covers it (RB-2).
                length = min(state.size - start, chance.choice((8, 16, 512, 4096, 1 << 30)))
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
        """What is known of directories follows them to their new path."""
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
