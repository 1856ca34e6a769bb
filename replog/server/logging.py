"""How every process logs: structured events on stderr, for people on a terminal, as JSON lines otherwise.

The processes log through structlog, the library through `logging`; both come out alike."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import structlog

from replog.command.output import harmless
from replog.config import LogConfig
from replog.server.log_file import LogFile
from replog.server.log_lines import LogLines

LINES = 10  # of one event, at most, when it happens to many at once: a line costs more than most of what it tells of

_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure_command() -> None:
    """For a command: warnings only, as sentences, in turn with what else it says."""
    configure(logging.WARNING, _sentence, logging.StreamHandler(sys.stderr))


def _sentence(_logger: object, _name: str, event: structlog.typing.EventDict) -> str:
    more = [f"{name}={value}" for name, value in event.items() if name not in ("level", "event", "timestamp")]
    return " ".join([f"{event['level']}: {event['event']}", *more])


def configure_process(config: LogConfig) -> None:
    """As its settings say."""
    renderer = {"": None, "console": structlog.dev.ConsoleRenderer(), "json": _json}[config.log_format]
    lines = LogLines() if config.log_file is None else LogLines(LogFile(config.log_file).turn_if_full)
    configure(logging.getLevelNamesMapping()[config.log_level], renderer, lines)


@contextmanager
def starting(config: LogConfig) -> Iterator[Callable[[], None]]:
    """Log as `config` says. Until what this gives is called, who starts the process is told of an error that ends it:
    where stderr led before `log.file`, too."""
    with os.fdopen(os.dup(sys.stderr.fileno()), "wb", buffering=0) as before:
        try:
            configure_process(config)
            yield before.close
        except Exception as error:
            with suppress(OSError, ValueError):  # nobody is there any more; or it has started
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
    """Set logging up, once per process, before the first event. Data belongs on stdout, so logs never go there."""
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
    """A line for each row; of many the first few, and how many more there are."""
    for row in rows[:LINES]:
        tell(event, **row)
    if len(rows) > LINES:
        tell(f"{event}: more of them", count=len(rows) - LINES)
