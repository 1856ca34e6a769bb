"""The disks of a simulation: while it runs, stand-ins replace the functions of `os` that change files.

They refuse every call of a dead process, kill one at its Nth change of a file, answer that the disk is full or
failing, and keep a journal of what a power loss may take back. A call from no process, or for a file that is not on the
process's own host, goes to the real function. What C libraries write, such as SQLite, is not seen."""

import errno
import io
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replog.log.files import filesystem
from replog.log.files.names import LOG_SUFFIX
from replog.simulator.disk.disk_times import DiskTimes
from replog.simulator.disk.journal import FileState, Journal
from replog.simulator.disk.python_files import RawFile, SortedEntries
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import DEAD, PROCESS, WALL_START_MS, Killed, SimulatedProcess
from replog.simulator.runtime.rng import Rng, Streams

_GROWS = frozenset({"create", "write", "mkdir"})  # a full disk refuses these


class _Real:
    """The real functions."""

    open, close, write, pwrite, pwritev = os.open, os.close, os.write, os.pwrite, os.pwritev
    ftruncate, truncate, fsync, fdatasync = os.ftruncate, os.truncate, os.fsync, os.fdatasync
    rename, replace, unlink, remove, mkdir, rmdir = os.rename, os.replace, os.unlink, os.remove, os.mkdir, os.rmdir
    utime, stat, listdir, scandir, statvfs = os.utime, os.stat, os.listdir, os.scandir, os.statvfs
    pread, preadv, fstat, lseek, getpid = os.pread, os.preadv, os.fstat, os.lseek, os.getpid
    open_file = io.open
    sync_filesystem = filesystem.sync_filesystem


@dataclass(slots=True, eq=False)
class _Open:
    """A process's descriptor of a directory, or of a file that is only read."""

    process: SimulatedProcess
    path: str
    journal: Journal


@dataclass(slots=True, eq=False)
class _Writable(_Open):
    """A process's descriptor of a file that it may change."""

    state: FileState
    append: bool


class Disk:
    """Each directory in `directory` is the disk of the host of that name. `counts` has the number of events by kind."""

    def __init__(self, loop: SimulatedLoop, rng: Rng, directory: Path) -> None:
        self.counts: dict[str, int] = {}
        self.operations = 0
        self.times = DiskTimes(loop, rng)
        self._loop = loop
        self._parts = Streams(rng, "parts of writes")
        self._root = f"{directory}/"
        self._journals: dict[str, Journal] = {}
        self._open: dict[int, _Open] = {}
        self._kill_at: dict[SimulatedProcess, int] = {}
        self._errors: dict[str, int] = {}
        loop.on_kill.append(self._died)

    # faults

    def kill_at(self, process: SimulatedProcess, operation: int) -> None:
        """Kill the process in the middle of its Nth change of a file from now; 1 is the next one."""
        self._kill_at[process] = operation

    def spare(self, process: SimulatedProcess) -> None:
        """Take back `kill_at`."""
        self._kill_at.pop(process, None)

    def fail(self, host: str, error: int) -> None:
        """Fail until `heal`: ENOSPC what takes room, EMFILE what opens a file, any other error every change."""
        self._errors[host] = error

    def heal(self, host: str) -> None:
        self._errors.pop(host, None)
        self.times.heal(host)

    def failing(self, host: str) -> bool:
        return host in self._errors

    def sound(self, host: str) -> bool:
        return not self.failing(host) and self.times.sound(host) and not self.times.holds_up(host)

    def power_loss(self, directory: Path, rng: random.Random) -> None:
        """Leave what a power loss may leave on the host that owns `directory`, whose process must be dead."""
        self._journal(str(directory)).power_loss(rng)

    def unsynced(self, path: Path) -> int | None:
        """Return the position in the file of the first byte that a power loss may take; None: there is none."""
        journal = self._known(str(path))
        state = journal.files.get(_Real.stat(path).st_ino) if journal is not None else None
        return min((change.position for change in state.changes), default=None) if state is not None else None

    @staticmethod
    def flip_bit(path: Path, rng: random.Random) -> int | None:
        """Flip a random bit, and return the position of its byte; None: the file is empty."""
        fd = _Real.open(path, os.O_RDWR)
        try:
            size = _Real.fstat(fd).st_size
            if size == 0:
                return None
            position = rng.randrange(size)
            (byte,) = _Real.pread(fd, 1, position)
            _Real.pwrite(fd, bytes([byte ^ 1 << rng.randrange(8)]), position)
            return position
        finally:
            _Real.close(fd)

    # the stand-ins

    def __enter__(self) -> "Disk":
        """Replace the functions of `os`; until the loop is disposed of, the stand-ins must stay."""
        io.open = self._io_open
        filesystem.sync_filesystem = self._sync_filesystem
        for name in _STAND_INS:
            setattr(os, name, getattr(self, f"_os_{name}"))
        return self

    def __exit__(self, *_: object) -> None:
        io.open = _Real.open_file
        filesystem.sync_filesystem = _Real.sync_filesystem
        for name in _STAND_INS:
            setattr(os, name, getattr(_Real, name))

    def _os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if (full := self._mine(path, dir_fd)) is None:
            return _Real.open(path, flags, mode, dir_fd=dir_fd)
        process = PROCESS.get()
        if self._errors.get(process.name) == errno.EMFILE:
            self._count("EMFILE")
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), full)
        created = bool(flags & os.O_CREAT) and not os.path.lexists(full)
        truncated = bool(flags & os.O_TRUNC) and not created
        if created or truncated:
            self._begin(full, "create" if created else "truncate")
        else:
            self.times.take(process, "open")
        if flags & os.O_ACCMODE == os.O_WRONLY:
            flags = flags & ~os.O_ACCMODE | os.O_RDWR  # the journal reads what a write overwrites
        fd = _Real.open(full, flags & ~os.O_TRUNC, mode)
        journal = self._journal(full)
        if flags & os.O_ACCMODE == os.O_RDONLY and not created:
            self._open[fd] = _Open(process, full, journal)
            return fd
        status = _Real.fstat(fd)
        state = None if created else journal.files.get(status.st_ino)
        if state is None:
            state = journal.files[status.st_ino] = FileState(status.st_size, self._loop.time())
        self._open[fd] = opened = _Writable(process, full, journal, state, bool(flags & os.O_APPEND))
        if created:
            journal.created(full)
        elif truncated and state.size:
            self._truncated(fd, opened, 0)
        return fd

    def _os_close(self, fd: int) -> None:
        self._alive()
        self._open.pop(fd, None)
        _Real.close(fd)

    def _os_pread(self, fd: int, length: int, offset: int, /) -> bytes:
        data = _Real.pread(fd, length, offset)
        self._was_read(fd, len(data), offset)
        return data

    def _os_preadv(self, fd: int, buffers: Any, offset: int, flags: int = 0, /) -> int:
        length = _Real.preadv(fd, buffers, offset, flags & ~os.RWF_NOWAIT)
        self._was_read(fd, length, offset, waits=not flags & os.RWF_NOWAIT)
        return length

    def _was_read(self, fd: int, length: int, offset: int, *, waits: bool = True) -> None:
        process, opened = PROCESS.get(None), self._open.get(fd)
        if process is not None and opened is not None:
            self.times.read(process, opened.path, offset, length, waits=waits)

    def _writable(self, fd: int) -> _Writable | None:
        """Return the descriptor if the running process may write to it."""
        opened = self._open.get(fd) if self._alive() is not None else None
        return opened if isinstance(opened, _Writable) else None

    def _os_write(self, fd: int, data: Any) -> int:
        if (opened := self._writable(fd)) is None:
            return _Real.write(fd, data)
        position = opened.state.size if opened.append else _Real.lseek(fd, 0, os.SEEK_CUR)
        written = self._write(opened, fd, memoryview(data).cast("B"), position)
        _Real.lseek(fd, position + written, os.SEEK_SET)
        return written

    def _os_pwrite(self, fd: int, data: Any, offset: int, /) -> int:
        if (opened := self._writable(fd)) is None:
            return _Real.pwrite(fd, data, offset)
        return self._write(opened, fd, data, offset)

    def _os_pwritev(self, fd: int, buffers: Any, offset: int, flags: int = 0, /) -> int:
        if (opened := self._writable(fd)) is None:
            return _Real.pwritev(fd, buffers, offset, flags)
        return self._write(opened, fd, b"".join(buffers), offset)

    def _write(self, opened: _Writable, fd: int, data: Any, position: int) -> int:
        length, part = len(data), self._parts[opened.process.name].random
        if self._kill_at.get(opened.process) == 1:
            self._put(opened.state, fd, data[: int(part() * (length + 1))], position)
        try:
            self._begin(opened.path, "write", length)
        except OSError as error:  # a disk that fills up still writes what it has room for
            length = int(part() * length) if error.errno == errno.ENOSPC and part() < 0.2 else 0
            if length == 0:
                raise
        self._put(opened.state, fd, data[:length], position)
        return length

    def _put(self, state: FileState, fd: int, data: Any, position: int) -> None:
        length = len(data)
        if length:
            overwritten = state.size - position
            old = _Real.pread(fd, min(length, overwritten), position) if overwritten > 0 else b""
            _Real.pwrite(fd, data, position)
            state.wrote(position, length, old)
            state.modified_s = self._loop.time()

    def _os_ftruncate(self, fd: int, length: int) -> None:
        if (opened := self._writable(fd)) is None:
            _Real.ftruncate(fd, length)
        else:
            self._begin(opened.path, "truncate")
            self._truncated(fd, opened, length)

    def _truncated(self, fd: int, opened: _Writable, length: int) -> None:
        state = opened.state
        old = _Real.pread(fd, state.size - length, length) if length < state.size else b""
        _Real.ftruncate(fd, length)
        if length != state.size:
            state.truncated(length, old)
        state.modified_s = self._loop.time()

    def _os_truncate(self, path: Any, length: int) -> None:
        if isinstance(path, int):
            self._os_ftruncate(path, length)
            return
        fd = self._os_open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._os_ftruncate(fd, length)
        finally:
            self._os_close(fd)

    def _os_fsync(self, fd: Any) -> None:
        process = self._alive()
        opened = self._open.get(fd if isinstance(fd, int) else fd.fileno())
        if process is None or opened is None:
            _Real.fsync(fd)
            return
        self._begin(opened.path, "fsync")
        self._count("fsyncs")
        if isinstance(opened, _Writable):
            opened.state.changes.clear()
        elif os.path.isdir(opened.path):
            opened.journal.synced(opened.path)
        else:  # a file that was opened for reading only
            state = opened.journal.files.get(_Real.fstat(fd).st_ino)
            if state is not None:
                state.changes.clear()

    def _sync_filesystem(self, fd: int) -> bool:
        if (opened := self._open.get(fd)) is None:  # an operator's tool, which runs in no process, opened it
            journal = self._known(os.readlink(f"/proc/self/fd/{fd}"))
            if journal is not None:
                journal.synced_all()
            return journal is not None
        if self.failing(opened.process.name):
            return False
        self._begin(opened.path, "fsync").synced_all()
        return True

    def _os_rename(self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        source, target = self._mine(src, src_dir_fd), self._mine(dst, dst_dir_fd)
        if source is None or target is None:
            _Real.replace(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        else:
            self._begin(target, "rename").rename(source, target)

    def _os_unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        if (full := self._mine(path, dir_fd)) is None:
            _Real.unlink(path, dir_fd=dir_fd)
        else:
            self._begin(full, "unlink").unlink(full)

    def _os_mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if (full := self._mine(path, dir_fd)) is None:
            _Real.mkdir(path, mode, dir_fd=dir_fd)
        elif full == self._root + PROCESS.get().name:  # the disk itself
            self._begin(full, "mkdir")
            _Real.mkdir(full, mode)
        else:
            self._begin(full, "mkdir").mkdir(full, mode)

    def _os_rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        if (full := self._mine(path, dir_fd)) is not None:
            self._begin(full, "rmdir").rmdir(full)
            return
        _Real.rmdir(path, dir_fd=dir_fd)
        removed = os.fspath(path)
        if isinstance(removed, str) and removed.startswith(self._root) and (journal := self._known(removed)):
            journal.removed(removed)

    def _os_utime(self, path: Any, times: Any = None, **options: Any) -> None:
        if (full := self._mine(path)) is None:
            _Real.utime(path, times, **options)
            return
        state = self._begin(full, "utime").files.get(_Real.stat(full).st_ino)
        if state is not None and "ns" in options:
            state.modified_s = options["ns"][1] / 1e9 - WALL_START_MS / 1000

    def _os_stat(self, path: Any, **options: Any) -> os.stat_result:
        """Give a log file the virtual time of its last change, which retention may use."""
        status = _Real.stat(path, **options)
        process = PROCESS.get(None)
        if process is None or (full := self._ours(process, path)) is None:
            return status
        if not full.endswith(LOG_SUFFIX) or (state := self._journal(full).files.get(status.st_ino)) is None:
            return status
        modified_s = WALL_START_MS / 1000 + state.modified_s
        reduced: Any = status.__reduce__()
        values, named = reduced[1]
        named |= {"st_mtime": modified_s, "st_mtime_ns": int(modified_s * 1e9)}
        return os.stat_result((*values[:8], int(modified_s), *values[9:]), named)

    @staticmethod
    def _os_getpid() -> int:
        """Return 1 in a process: lock files hold the id, and the length of a real one would change a write's time."""
        return _Real.getpid() if PROCESS.get(None) is None else 1

    def _os_listdir(self, path: Any = ".") -> list[Any]:
        return sorted(_Real.listdir(path))

    def _os_scandir(self, path: Any = ".") -> Any:
        return SortedEntries(path)

    def _os_statvfs(self, path: Any) -> Any:
        """Report endless room, or none on a full disk."""
        process = PROCESS.get(None)
        if process is None or self._ours(process, path) is None:
            return _Real.statvfs(path)
        free = 0 if self._errors.get(process.name) == errno.ENOSPC else 1 << 40
        return os.statvfs_result((4096, 4096, free, free, free, free, free, free, 0, 255))

    def _io_open(self, file: Any, mode: str = "r", buffering: int = -1, *options: Any, **named: Any) -> Any:
        full = self._mine(file)
        if mode.strip("bt") == "r" or full is None:
            return _Real.open_file(file, mode, buffering, *options, **named)
        kind = mode.strip("bt+")[0]
        flags = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}
        fd = self._os_open(full, flags[kind] | os.O_RDWR | os.O_CLOEXEC, 0o666)
        opened = self._open[fd]
        raw = RawFile(fd, lambda: self._open.get(fd) is opened, readable="+" in mode)
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *options, **named)

    _os_fdatasync, _os_replace, _os_remove = _os_fsync, _os_rename, _os_unlink

    # the process that calls, and the file that it means

    @staticmethod
    def _alive() -> SimulatedProcess | None:
        process = PROCESS.get(None)
        if process is not None and process.state is DEAD:
            raise Killed
        return process

    def _mine(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return the full path if it is on the disk of the running process's host, otherwise None."""
        process = self._alive()
        return self._ours(process, path, dir_fd) if process is not None else None

    def _ours(self, process: SimulatedProcess, path: Any, dir_fd: int | None = None) -> str | None:
        """Return the full path if it is on the disk of the process's host, otherwise None."""
        full = path if isinstance(path, int) else os.fspath(path)
        if not isinstance(full, str):
            return None
        if dir_fd is not None and (opened := self._open.get(dir_fd)) is not None:
            full = f"{opened.path}/{full}"
        return full if f"{full}/".startswith(f"{self._root}{process.name}/") else None

    def _known(self, path: str) -> Journal | None:
        return self._journals.get(path[len(self._root) :].partition("/")[0])

    def _journal(self, path: str) -> Journal:
        journal = self._known(path)
        if journal is None:
            host = path[len(self._root) :].partition("/")[0]
            trash = Path(self._root, ".trash", host)
            trash.mkdir(parents=True)
            journal = self._journals[host] = Journal(Path(self._root, host), trash, self.counts)
        return journal

    def _begin(self, path: str, kind: str, size: int = 0) -> Journal:
        """Spend the time of a change, and return the journal for it; call it before each. Raises Killed or OSError if
        the change must not happen."""
        process = PROCESS.get()
        self.operations += 1
        self.times.take(process, kind, size)
        if process in self._kill_at:
            self._kill_at[process] -= 1
            if self._kill_at[process] <= 0:
                self._count("killed at a change")
                self._loop.kill(process)
                raise Killed
        error = self._errors.get(process.name)
        if error not in (None, errno.EMFILE) and (error != errno.ENOSPC or kind in _GROWS):
            self._count(errno.errorcode[error])
            raise OSError(error, os.strerror(error), path)
        return self._journal(path)

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def _died(self, process: SimulatedProcess) -> None:
        """Close the dead process's files, which frees its locks, as the operating system does."""
        self._kill_at.pop(process, None)
        for fd in [fd for fd, opened in self._open.items() if opened.process is process]:
            del self._open[fd]
            _Real.close(fd)


_STAND_INS = [name.removeprefix("_os_") for name in vars(Disk) if name.startswith("_os_")]
