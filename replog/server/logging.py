"""Logging of every process: structured events on stderr, for people on a terminal, as JSON lines otherwise.

The processes log through structlog, the library through `logging`; both look alike."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import structlog

from replog.command.output import harmless
from replog.config.processes import LogConfig
from replog.server.log_file import LogFile
from replog.server.log_lines import LogLines

LINES = 10  # the first of an event that happens to thousands of things: all lines would cost more than the event

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


def configure_process(config: LogConfig) -> None:
    """Log by the settings of a process."""
    renderer = {"": None, "console": structlog.dev.ConsoleRenderer(), "json": _json}[config.log_format]
    lines = LogLines() if config.log_file is None else LogLines(LogFile(config.log_file).turn_if_full)
    configure(logging.getLevelNamesMapping()[config.log_level], renderer, lines)


@contextmanager
def starting(config: LogConfig) -> Iterator[Callable[[], None]]:
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
    render: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if renderer is not None:
        render.append(renderer)
    elif sys.stderr is not None and sys.stderr.isatty():
        render.append(structlog.dev.ConsoleRenderer())
    else:
        render.append(_json)
    handler = handler or LogLines()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_SHARED, structlog.stdlib.ExtraAdder()], processors=render
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def tell_each(tell: Callable[..., object], event: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Log a line for each of the first rows, and how many more there are."""
    for row in rows[:LINES]:
        tell(event, **row)
    if len(rows) > LINES:
        tell(f"{event}: more of them", count=len(rows) - LINES)
