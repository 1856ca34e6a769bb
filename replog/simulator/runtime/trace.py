"""The trace of a simulation, one aligned line an event: virtual time, process, event, details.

An event is a tuple, and becomes text only when somebody reads it. Two runs of a seed give the same text, byte for
byte, so it has no wall time, process id, temporary path or address of an object."""

import logging
import re
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

MAX_EVENTS = 500_000  # the newest are kept
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_UNIQUE = re.compile(r"\.[0-9a-f]{32}-")  # the random part in the name of a directory to be deleted (FN-1)
_REAL_WORLD = frozenset({"pid", "exc_info"})

Event = tuple[float, str, str, dict[str, Any]]


class Trace:
    """The newest events of a simulation. `directory`, which has its files, is cut out of the text."""

    def __init__(self, clock: Callable[[], float], process: Callable[[], str], directory: str) -> None:
        self._clock = clock
        self._process = process
        self._directory = directory + "/"
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._ended = False
        self.defects: list[str] = []  # exceptions that a shell only logged

    def add(self, event: str, /, **details: Any) -> None:
        """Add an event of the running process."""
        if not self._ended:
            self._events.append((self._clock(), self._process(), event, details))

    def add_for(self, process: str, event: str, /, **details: Any) -> None:
        self._events.append((self._clock(), process, event, details))

    def defect(self, event: str, details: dict[str, Any], error: BaseException | None) -> None:
        if self._ended:
            return
        text = f"{event}: {type(error).__name__}: {error}" if error is not None else event
        self._events.append((self._clock(), self._process(), "DEFECT", {"what": text, **details}))
        stack = "".join(traceback.format_exception(error)).rstrip() if error is not None else ""
        self.defects.append(f"{self._process()}: {text}\n{stack}".rstrip())

    def end(self) -> None:
        """Ignore all further events, which coroutines add as they are closed."""
        self._ended = True

    def __len__(self) -> int:
        return len(self._events)

    def lines(self, about: Iterable[str] = (), last: int | None = None) -> list[str]:
        """Return the `last` events as text; only those that name one of `about`, unless it is empty."""
        names = tuple(about)
        lines: list[str] = []
        # a step that waits for the disk adds events of later times before other processes add theirs
        for event in sorted(self._events, key=lambda event: event[0])[::-1]:
            if last is not None and len(lines) >= last:
                break
            line = self._line(event)
            if not names or any(name in line for name in names):
                lines.append(line)
        return lines[::-1]

    def _line(self, event: Event) -> str:
        time_s, process, name, details = event
        shown = dict(details)
        partition = shown.pop("partition", "")
        pairs = [f"{key}={_shown(value)}" for key, value in shown.items() if key not in _REAL_WORLD]
        text = f"{time_s:12.6f}  {process:<11}  {name:<24} {' '.join(filter(None, [str(partition), *pairs]))}"
        text = text.replace(self._directory, "").rstrip()
        return _UNIQUE.sub(".*-", _ADDRESS.sub("", text)).replace("\n", "\\n")

    @contextmanager
    def capturing_logs(self) -> Iterator[None]:
        """Turn what the shells log, through structlog and `logging`, into events."""
        trace = self

        class Captured(structlog.BoundLoggerBase):
            """The shells' logger; none of them binds values."""

            def debug(self, event: str, **details: Any) -> None:
                pass

            def info(self, event: str, **details: Any) -> None:
                trace.add(event, **details)

            warning = error = info

            def exception(self, event: str, **details: Any) -> None:
                trace.defect(event, details, sys.exc_info()[1])

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if record.exc_info is not None and record.levelno >= logging.ERROR:
                    trace.defect(record.getMessage(), {}, record.exc_info[1])
                else:
                    trace.add(record.getMessage())

        root = logging.getLogger()
        before, level = root.handlers[:], root.level
        root.handlers[:] = [Handler()]
        root.setLevel(logging.INFO)
        settings = structlog.get_config()
        structlog.configure(processors=[], wrapper_class=Captured, cache_logger_on_first_use=False)
        try:
            yield
        finally:
            structlog.configure(**settings)
            root.handlers[:] = before
            root.setLevel(level)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value if value and " " not in value else repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{each}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return "[" + ",".join(map(str, value)) + "]"
    return str(value)
