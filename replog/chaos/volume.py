"""The file system of a machine: ext4 in a file, which can be filled and frozen, fail, and lose what was not flushed."""

import contextlib
import errno
import fcntl
import os
import struct
import subprocess
from pathlib import Path

SIZE_BYTES = 512 << 20  # the sparse file's
TIMEOUT_S = 60.0
_BALLAST = "ballast"
_SHUTDOWN, _LOSE_WHAT_IS_NOT_FLUSHED = 0x8004587D, 2  # FS_IOC_SHUTDOWN and its NOLOGFLUSH, like a power loss


class Volume:
    """A file system that is mounted at `path`. `repair` undoes `fill` and `freeze`, `remount` a `break_down`."""

    def __init__(self, image: Path, path: Path) -> None:
        """Make and mount it. Raises OSError, with the output of mkfs or mount, if the machine does not allow it."""
        self.path = path
        self._image = image
        self._frozen = False
        with image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        path.mkdir(parents=True, exist_ok=True)
        _run("mkfs.ext4", "-q", "-m", "0", str(image))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def fill(self) -> None:
        """Fill it to the last byte."""
        with (self.path / _BALLAST).open("wb", buffering=0) as ballast:
            size, share = 0, SIZE_BYTES
            while share:
                try:
                    os.posix_fallocate(ballast.fileno(), size, share)
                    size += share
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    share //= 2

    def freeze(self) -> None:
        """Freeze it: writers wait."""
        _run("fsfreeze", "--freeze", str(self.path))
        self._frozen = True

    def thaw(self) -> None:
        if self._frozen:
            _run("fsfreeze", "--unfreeze", str(self.path))
            self._frozen = False

    def break_down(self) -> None:
        """Let every access fail from now on, and lose what was not flushed."""
        directory = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, _SHUTDOWN, struct.pack("I", _LOSE_WHAT_IS_NOT_FLUSHED))
        finally:
            os.close(directory)

    def remount(self) -> None:
        """Mount it again, with what is on the disk, as after a restart of the machine. No file of it may be open."""
        self.unmount()
        self._mount()

    def unmount(self) -> None:
        _run("umount", str(self.path))

    def repair(self) -> None:
        """Thaw it, and give back the room that `fill` took."""
        self.thaw()
        with contextlib.suppress(OSError):
            (self.path / _BALLAST).unlink(missing_ok=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
