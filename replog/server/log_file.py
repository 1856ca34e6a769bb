"""The file that a process logs to instead of stderr. A full one is renamed, and the oldest is removed."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from replog.errors import ErrorCode

FILE_BYTES = 10 << 20
OLDER = 4  # older files that are kept; `.1` is the newest of them


class LogFile:
    """Gets everything that the process writes to stderr, such as a traceback that nobody caught."""

    def __init__(self, path: Path) -> None:
        """Raises INVALID_CONFIG if the file cannot be written."""
        self._path = path
        try:
            self._open()
        except OSError as error:
            raise ErrorCode.INVALID_CONFIG.error(f"log.file={path}: {error}") from None

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        os.dup2(descriptor, sys.stderr.fileno())
        os.close(descriptor)

    def turn_if_full(self) -> None:
        """Rename a full file and begin another. If that fails, the file grows on, otherwise lines would be lost."""
        try:
            if os.fstat(sys.stderr.fileno()).st_size < FILE_BYTES:
                return
            for number in range(OLDER, 0, -1):
                newer = self._named(number - 1)
                if newer.exists():
                    newer.replace(self._named(number))
            self._open()
        except OSError as error:
            with suppress(OSError):
                os.write(sys.stderr.fileno(), f"log.file={self._path}: {error}\n".encode())

    def _named(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path
