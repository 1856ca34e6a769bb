"""The file that a process logs to instead of stderr, in a bounded room: a full one is renamed, the oldest removed."""

import logging
import os
import sys
from pathlib import Path

from replog.errors import ErrorCode, ReplogError

FILE_BYTES = 10 << 20
OLDER = 4  # files that are kept beside it: `.1` is the newest of them


class LogFile(logging.StreamHandler):  # type: ignore[type-arg]
    """Everything that the process writes to stderr goes there too, such as a traceback that nobody caught."""

    def __init__(self, path: Path) -> None:
        """Raises INVALID_CONFIG if it cannot be written to."""
        super().__init__(sys.stderr)
        self._path = path
        try:
            self._open()
        except OSError as error:
            raise ReplogError(ErrorCode.INVALID_CONFIG, f"log.file={path}: {error}") from None

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        os.dup2(descriptor, sys.stderr.fileno())
        os.close(descriptor)

    def emit(self, record: logging.LogRecord) -> None:
        if os.fstat(sys.stderr.fileno()).st_size >= FILE_BYTES:
            self._turn()
        super().emit(record)

    def _turn(self) -> None:
        """If it cannot be done, the file grows on: what is logged matters more."""
        try:
            for number in range(OLDER, 0, -1):
                newer = self._named(number - 1)
                if newer.exists():
                    newer.replace(self._named(number))
            self._open()
        except OSError:
            self.handleError(logging.LogRecord(__name__, logging.ERROR, "", 0, "", (), None))

    def _named(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path
