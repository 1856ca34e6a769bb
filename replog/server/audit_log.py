"""Denied requests, on a logger of their own, `replog.authorizer`, like Kafka's kafka.authorizer.logger.

Nobody can fill a disk with them: a principal has some lines at once, then one a second, and the next line says how many
were left out."""

from dataclasses import dataclass

import structlog

from replog.rpc.peer import Peer
from replog.server.clock import Clock

LOGGER = "replog.authorizer"
BURST = 10  # lines of a principal at once
LINE_MS = 1000  # then a line in so long
MAX_PRINCIPALS = 1000  # more principals share one allowance
MAX_SHOWN = 300  # characters of a name in a request

log = structlog.get_logger(LOGGER)


@dataclass(slots=True)
class _Lines:
    left: float
    since_ms: int
    left_out: int = 0


class AuditLog:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[str, _Lines] = {}

    def denied(self, asks: Peer, operation: str, resource: str, request: str, rule: str) -> None:
        """Log a denial, unless the principal has too many. `resource` is like TOPIC:flights; `rule` says which ACL
        denied it, or why none allowed it."""
        lines = self._of(asks.principal)
        if lines.left < 1:
            lines.left_out += 1
            return
        lines.left -= 1
        log.info(
            "denied",
            logger=LOGGER,
            principal=asks.principal,
            host=asks.host,
            operation=operation,
            resource=resource[:MAX_SHOWN],
            request=request,
            rule=rule,
            left_out=lines.left_out,
        )
        lines.left_out = 0

    def _of(self, principal: str) -> _Lines:
        now_ms = self._clock.monotonic_ms()
        who = principal if principal in self._lines or len(self._lines) < MAX_PRINCIPALS else ""
        lines = self._lines.setdefault(who, _Lines(BURST, now_ms))
        lines.left = min(BURST, lines.left + (now_ms - lines.since_ms) / LINE_MS)
        lines.since_ms = now_ms
        return lines
