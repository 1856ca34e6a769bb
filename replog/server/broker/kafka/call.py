"""One request of a Kafka client, until it is answered."""

from collections.abc import Callable
from typing import Any, Protocol

from replog.common.acl import Operation, ResourceType
from replog.kafka.frames import Request
from replog.kafka.versions import Api
from replog.rpc.peer import Peer
from replog.server.authorizer import Authorizer, Permits


class Kept(Protocol):
    """Something that a connection keeps, as a fetch session."""

    def close(self) -> None:
        """The connection is lost."""


class Line(Protocol):
    """A call's connection."""

    asks: Peer
    kept: dict[str, Kept]  # handlers' own things: each is closed with the connection

    def settle(self, call: "Call", response: Any | None, gone: Callable[[], None] | None) -> None:
        """The call is over. `response`: None if nothing is answered. `gone` is called when the answer has left."""

    def hang_up(self, why: str) -> None:
        """Close it, and log why."""


class Call:
    __slots__ = (
        *("_authorizer", "_settled", "api", "begun_s", "connection", "message", "number"),
        *("throttle_ms", "version"),
    )

    def __init__(self, connection: Line, authorizer: Authorizer, api: Api, request: Request, begun_s: float) -> None:
        self.connection = connection
        self.api = api
        self.number = request.number
        self.version = request.version
        self.message = request.message  # `records` and `bytes` are views of this request's own memory
        self.begun_s = begun_s  # the clock's monotonic seconds
        self.throttle_ms = 0
        self._authorizer = authorizer
        self._settled = False

    @property
    def asks(self) -> Peer:
        """The client, as the connection proves it."""
        return self.connection.asks

    @property
    def path(self) -> str:
        """The request's name in the audit log."""
        return f"Kafka/{self.api.name}"

    def answer(self, response: Any, gone: Callable[[], None] | None = None) -> None:
        """Answer, now or later: only the first call counts. Answers leave in the order of the requests. `response` is
        the API's message, or the bytes of its body, encoded before for this version.

        `gone` is called once: when the last byte has left, or never will. Until then the answer stays in memory."""
        if self._settled:
            if gone is not None:
                gone()
            return
        self._settled = True
        if self.throttle_ms and "throttle_time_ms" in getattr(response, "_fields", ()):
            response = response._replace(throttle_time_ms=self.throttle_ms)
        self.connection.settle(self, response, gone)

    def no_answer(self) -> None:
        """The request is done, and has no answer: a produce with acks=0."""
        if not self._settled:
            self._settled = True
            self.connection.settle(self, None, None)

    def hang_up(self, why: str) -> None:
        """Close the connection: what a client without answers understands (PR-7)."""
        self.connection.hang_up(why)

    def throttle(self, ms: int) -> None:
        """Before the answer: its `throttle_time_ms` says so, and the connection is not read for so long (KIP-219)."""
        self.throttle_ms = max(self.throttle_ms, ms)

    def allows(self, operation: Operation, kind: ResourceType, name: str, *, quietly: bool = False) -> bool:
        """Return True if the client may do it. A denial goes to the audit log, unless `quietly`."""
        if not self._authorizer.enabled:
            return True
        return self._authorizer.allows(self.asks, operation, kind, name, self.path, quietly=quietly)

    def permits(self, operation: Operation, *, quietly: bool = False) -> Permits:
        """Return the function that says which topics are allowed: it remembers them until an ACL changes."""
        return self._authorizer.permits_topics(self.asks, operation, self.path, quietly=quietly)
