"""Options that every source, sink and table of ours takes: where the cluster is, and with what it is asked.

Those of Kafka's clients have the prefix `kafka.`, as in Spark's own source; it may be left out. What is large to import
is imported where it is needed: every worker imports this.
"""

from collections.abc import Iterable, Mapping
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
"""What is given of `SECURITY`; if nothing is, the file counts that REPLOG_CLIENT_CONFIG names."""


def in_full(options: Mapping[str, str], kafkas: Iterable[str]) -> dict[str, str]:
    """By their whole names, in lower case. Raises INVALID_CONFIG for one that has two values."""
    known = {name.lower() for name in kafkas}
    given: dict[str, str] = {}
    for name, value in options.items():
        full = f"kafka.{name.lower()}"
        full = full if full in known else name.lower()
        if given.setdefault(full, value.strip()) != value.strip():
            raise refused(f"option {full} is given twice, with different values")
    return given


def refused(message: str) -> ReplogError:
    return ReplogError(ErrorCode.INVALID_CONFIG, message)


def refuse_unknown(who: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises INVALID_CONFIG, with what was probably meant."""
    from replog.settings import alike

    lower = {name.lower(): name for name in known}
    typos: list[str] = []
    others: list[str] = []
    for name in sorted(set(given) - lower.keys()):
        meant = " or ".join(lower[likely] for likely in alike(name, list(lower)))
        (typos if meant else others).append(f"{name}; did you mean {meant}?" if meant else name)
    if others:
        typos.append(f"{', '.join(others)}; it knows {', '.join(sorted(lower.values()))}")
    if typos:
        raise refused(" ".join(f"{who} knows no option {each}" for each in typos))


def security_of(given: Mapping[str, str]) -> Security:
    """Of options in full; paths count from here. Raises INVALID_CONFIG also for what is wrong with the files."""
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

    return client_tls_of(dict(security), "the options")


def transport_with(security: Security) -> "Transport | None":
    """For a client; None: its own choice."""
    from replog.rpc.transports import transport_named

    return transport_named(tls=tls_with(security)) if security else None
