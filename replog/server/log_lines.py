"""A thread writes log lines, so that the process waits for no disk and no reader of a pipe.

Lines that wait are bounded. Lines without room, here or on the disk, are lost, and counted in a line and a metric."""

import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable

ROOM_BYTES = 4 << 20  # lines that wait
ENDING_S = 2.0  # how long a process that ends writes waiting lines


class LogLines(logging.Handler):
    """Writes to the descriptor of stderr: a terminal, a pipe or a file."""

    lost = 0  # lines lost by this process

    def __init__(self, before_line: Callable[[], None] = lambda: None) -> None:
        """The thread calls `before_line` before each line: a file may be full."""
        super().__init__()
        self._before_line = before_line
        self._lines = deque[bytes]()
        self._bytes = 0  # size of the lines
        self._changed = threading.Condition()
        self._untold = 0  # lost lines that no line has reported yet
        self._ends = False
        threading.Thread(target=self._write_all, name="log lines", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        except Exception:  # noqa: BLE001 (otherwise a line that cannot be formatted would fail its caller)
            self.handleError(record)
            return
        with self._changed:
            if self._bytes + len(line) <= ROOM_BYTES:
                self._lines.append(line)
                self._bytes += len(line)
                self._changed.notify_all()
            else:
                self._lose()

    def _lose(self) -> None:
        self._untold += 1
        LogLines.lost += 1

    def _write_all(self) -> None:
        descriptor = -1 if sys.stderr is None else sys.stderr.fileno()  # None: the process was started without stderr
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._ends)
                if not self._lines:
                    return
                line = self._lines[0]
            if (untold := self._untold) and _write(descriptor, self._told(untold)):
                with self._changed:
                    self._untold -= untold
            self._before_line()
            written = _write(descriptor, line)
            with self._changed:
                self._lines.popleft()
                self._bytes -= len(line)
                if not written:
                    self._lose()
                self._changed.notify_all()

    def _told(self, count: int) -> bytes:
        said = f"{count} log lines are lost: nobody read them in time, or there was no room for them"
        return f"{self.format(logging.LogRecord(__name__, logging.WARNING, '', 0, said, (), None))}\n".encode()

    def flush(self) -> None:
        """Wait until all is written, for at most `ENDING_S`. Logging calls it at the end of the process."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, ENDING_S)

    def close(self) -> None:
        """Have the thread write what waits, and end."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        super().close()


def _write(descriptor: int, line: bytes) -> bool:
    """Write a line. Return True if all of it was written."""
    while line:
        try:
            line = line[os.write(descriptor, line) :]
        except BlockingIOError:  # another process has made the terminal non-blocking
            select.select([], [descriptor], [])
        except OSError:
            return False
    return True
