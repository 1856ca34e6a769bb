"""The options of every source, sink and table of ours: the servers and TLS; and how Spark prints our errors.

Those of Kafka's clients have the prefix `kafka.`, as in Spark's own source; it may be left out. Large modules are
imported where they are used, since every worker imports this one."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from replog.errors import ErrorCode, ReplogError

if TYPE_CHECKING:
    from replog.rpc.tls import Tls
    from replog.rpc.transport import Transport

SERVERS = "kafka.bootstrap.servers"
SECURITY = (
    "kafka.security.protocol",
    "kafka.ssl.keystore.location",
    "kafka.ssl.keystore.type",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.type",
)

Security = tuple[tuple[str, str], ...]
"""The options of `SECURITY` that are given; without any, the file that REPLOG_CLIENT_CONFIG names has them."""


def in_full(options: Mapping[str, str], kafkas: Iterable[str]) -> dict[str, str]:
    """Return options under their full names, in lower case. Raises INVALID_CONFIG for one with two values."""
    known = {name.lower() for name in kafkas}
    given: dict[str, str] = {}
    for name, value in options.items():
        full = f"kafka.{name.lower()}"
        full = full if full in known else name.lower()
        if given.setdefault(full, value.strip()) != value.strip():
            raise refused(f"option {full} is given twice, with different values")
    return given


def refused(message: str) -> ReplogError:
    return ErrorCode.INVALID_CONFIG.error(message)


@contextmanager
def reported_first() -> Iterator[None]:
    """Make Spark print an error of ours in its first line, not in the last of thirty: leave the traceback out of a
    worker's output. Put it around code that Spark calls; outside of workers it does nothing."""
    try:
        yield
    except (ReplogError, OSError):
        program = getattr(sys.modules["__main__"], "__spec__", None)
        if program is not None and program.name.startswith("pyspark."):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def refuse_unknown(who: str, given: Iterable[str], known: Iterable[str], idle: Iterable[str] = ()) -> None:
    """Raise INVALID_CONFIG for an unknown option, and suggest a known one, or one of `idle`, which have no effect."""
    from replog.config.settings import alike

    if sasl := sorted(name for name in given if name.removeprefix("kafka.").startswith("sasl.")):
        raise refused(
            f"{who} has no SASL, so not {', '.join(sasl)}; use TLS: kafka.security.protocol=SSL and kafka.ssl.*"
        )
    lower = {name.lower(): name for name in known}
    typos: list[str] = []
    others: list[str] = []
    for name in sorted(set(given) - lower.keys()):
        meant = " or ".join(lower.get(likely, likely) for likely in alike(name, [*lower, *idle]))
        (typos if meant else others).append(f"{name}; did you mean {meant}?" if meant else name)
    if others:
        typos.append(f"{', '.join(others)}; it knows {', '.join(sorted(lower.values()))}")
    if typos:
        raise refused(" ".join(f"{who} knows no option {each}" for each in typos))


def security_of(given: Mapping[str, str]) -> Security:
    """Return the options of `SECURITY`, with absolute paths. Raises INVALID_CONFIG, also if the files are wrong."""
    settings = {name.removeprefix("kafka."): given[name] for name in SECURITY if given.get(name)}
    paths = {name: str(Path(value).absolute()) for name, value in settings.items() if name.endswith(".location")}
    security = tuple((settings | paths).items())
    tls_with(security)
    return security


def tls_with(security: Security) -> "Tls | None":
    from replog.rpc.transports import client_tls

    return _tls(security) if security else client_tls()


@lru_cache(maxsize=100)
def _tls(security: Security) -> "Tls | None":
    from replog.rpc.transports import client_tls_of

    return client_tls_of(dict(security), "the query")


def transport_with(security: Security) -> "Transport | None":
    """Return a transport for a client; None: the client chooses."""
    from replog.rpc.transports import transport_named

    return transport_named(tls=tls_with(security)) if security else None
