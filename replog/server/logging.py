"""Logging of every process: structured events on stderr, for people on a terminal, as JSON lines otherwise.

The processes log through structlog, the library through `logging`; both look alike."""

import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from replog.command.output import harmless
from replog.config.processes import ServerConfig
from replog.errors import ErrorCode, ReplogError

LINES = 10  # the first of an event that happens to thousands of things: all lines would cost more than the event
ROOM_BYTES = 4 << 20  # lines that wait
ENDING_S = 2.0  # how long a process that ends writes waiting lines
FILE_BYTES = 10 << 20  # then a file is renamed, and another begun
OLDER = 4  # older files that are kept; `.1` is the newest of them

_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure_command() -> None:
    """Log warnings of a command as sentences, in order with its other output."""
    configure(logging.WARNING, _sentence, logging.StreamHandler(sys.stderr))


def _sentence(_logger: object, _name: str, event: structlog.typing.EventDict) -> str:
    more = [f"{name}={value}" for name, value in event.items() if name not in ("level", "event", "timestamp")]
    return " ".join([f"{event['level']}: {event['event']}", *more])


def configure_process(config: ServerConfig) -> None:
    renderer = {"": None, "console": structlog.dev.ConsoleRenderer(), "json": _json}[config.log_format]
    lines = LogLines() if config.log_file is None else LogLines(LogFile(config.log_file).turn_if_full)
    configure(logging.getLevelNamesMapping()[config.log_level], renderer, lines)


@contextmanager
def starting(config: ServerConfig) -> Iterator[Callable[[], None]]:
    """Log by `config`. An error that ends the process before the yielded function is called also goes to the stderr
    from before `log.file`, otherwise the user who starts the process would not see it."""
    with os.fdopen(os.dup(sys.stderr.fileno()), "wb", buffering=0) as before:
        try:
            configure_process(config)
            yield before.close
        except Exception as error:
            with suppress(OSError, ValueError):  # nobody reads it any more, or the process has started
                if not os.path.sameopenfile(before.fileno(), sys.stderr.fileno()):
                    before.write(f"error: {harmless(str(error))}\n".encode())
            raise


def _json(logger: Any, name: str, event: structlog.typing.EventDict) -> str | bytes:
    return structlog.processors.JSONRenderer(default=str)(
        logger, name, structlog.processors.format_exc_info(logger, name, event)
    )


def configure(
    level: int = logging.INFO,
    renderer: structlog.typing.Processor | None = None,
    handler: logging.Handler | None = None,
) -> None:
    """Set logging up, before the first event. Logs never go to stdout, which is for data."""
    if renderer is None:
        on_terminal = sys.stderr is not None and sys.stderr.isatty()
        renderer = structlog.dev.ConsoleRenderer() if on_terminal else _json
    handler = handler or LogLines()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_SHARED, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def log_each(tell: Callable[..., object], event: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Log a line for each of the first rows, and how many more there are."""
    for row in rows[:LINES]:
        tell(event, **row)
    if len(rows) > LINES:
        tell(f"{event}: more of them", count=len(rows) - LINES)


class Trouble:
    """Logs what fails again and again: a line for each cause, and another if that comes back after `over`."""

    def __init__(self) -> None:
        self._cause: object = None

    def log(self, tell: Callable[..., object], event: str, error: ReplogError) -> None:
        cause = event, error.code  # the text may count down
        if cause != self._cause:
            tell(event, reason=str(error))
        self._cause = cause

    def over(self) -> None:
        self._cause = None


class LogLines(logging.Handler):
    """Has a thread write lines to the descriptor of stderr: so the process waits for no disk and no reader of a pipe.

    Lines that wait are bounded. Lines without room, here or on the disk, are lost, and counted in a line and a
    metric."""

    lost = 0  # lines lost by this process

    def __init__(self, before_line: Callable[[], None] = lambda: None) -> None:
        """The thread calls `before_line` before each line: a file may be full."""
        super().__init__()
        self._before_line = before_line
        self._lines = deque[bytes]()
        self._bytes = 0  # size of the lines
        self._changed = threading.Condition()
        self._unreported = 0  # lost lines that no line has reported yet
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
        self._unreported += 1
        LogLines.lost += 1

    def _write_all(self) -> None:
        descriptor = -1 if sys.stderr is None else sys.stderr.fileno()  # None: the process was started without stderr
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._ends)
                if not self._lines:
                    return
                line = self._lines[0]
            if (unreported := self._unreported) and _write(descriptor, self._lost_line(unreported)):
                with self._changed:
                    self._unreported -= unreported
            self._before_line()
            written = _write(descriptor, line)
            with self._changed:
                self._lines.popleft()
                self._bytes -= len(line)
                if not written:
                    self._lose()
                self._changed.notify_all()

    def _lost_line(self, count: int) -> bytes:
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
