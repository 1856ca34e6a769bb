"""Disks without room: a real one that is small, and one that refuses now and then."""

import errno
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A tmpfs of its own. What is left on it is up to `leave`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def leave(self, pages: int) -> None:
        """Fill it up, except for so many pages."""
        self._ballast.unlink(missing_ok=True)
        found = os.statvfs(self.path)
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(found.f_bavail - pages, 1) * found.f_frsize)

    def make_room(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(path: Path, size: str = "4m") -> Iterator[SmallDisk]:
    """Skips the test, and says why, where nothing may be mounted."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


class Refusals:
    """While `on`, this part of all that takes room is refused; a write perhaps after a part of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rng: random.Random, rate: float = 0.5) -> None:
        self.on = False
        self.count = 0
        pwritev, pwrite, open_ = os.pwritev, os.pwrite, os.open

        def refuse(path: object) -> None:
            self.count += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

        def write(fd: int, buffers: list[bytes], position: int) -> int:
            if self.on and rng.random() < rate:
                data = b"".join(buffers)
                part = rng.randrange(len(data))
                if not part:
                    refuse(None)
                return pwrite(fd, data[:part], position)
            return pwritev(fd, buffers, position)

        def write_rest(fd: int, data: bytes, position: int) -> int:
            if self.on:
                refuse(None)
            return pwrite(fd, data, position)

        def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if self.on and flags & os.O_CREAT and not os.path.exists(path) and rng.random() < rate:
                refuse(path)
            return open_(path, flags, mode, dir_fd=dir_fd)

        monkeypatch.setattr(os, "pwritev", write)
        monkeypatch.setattr(os, "pwrite", write_rest)
        monkeypatch.setattr(os, "open", opened)
