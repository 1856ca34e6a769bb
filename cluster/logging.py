"""How every process logs: structured events on stderr, for people on a terminal, as JSON lines otherwise.

The processes log through structlog, the library through `logging`; both come out alike.
"""

import logging
import sys

import structlog

_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure(level: int = logging.INFO) -> None:
    """Set logging up, once per process, before the first event. Data belongs on stdout, so logs never go there."""
    render: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if sys.stderr.isatty():
        render.append(structlog.dev.ConsoleRenderer())
    else:
        render += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    handler = logging.StreamHandler(sys.stderr)
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
