"""How processes reach each other: a unary call, a stream of answers, a stream both ways, each with a deadline.

gRPC implements this (`replog.rpc.channel`, `replog.rpc.server`), and so can a simulated network. Every failure of
the wire is a `ReplogError`: the peer's own error, REQUEST_TIMED_OUT or NETWORK_EXCEPTION.
"""

from collections.abc import AsyncIterator
from typing import Any, Protocol

from replog.rpc.methods import Method


class Stream(Protocol):
    """One bidirectional stream. After any error, or once the peer has finished, it is of no more use."""

    async def send(self, message: Any) -> None:
        """Hand one message over; waits while the peer reads too slowly."""

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        """The next message; None when the peer has finished. With a timeout, REQUEST_TIMED_OUT once it has passed."""

    async def finish(self) -> None:
        """Send nothing more. What was sent still arrives, and the peer may still answer."""

    def cancel(self) -> None:
        """Give the stream up at once, on both sides."""


class Channel(Protocol):
    """A connection to one address, made when first used and again after it was lost."""

    address: str

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any: ...

    def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        """A stream of answers to one request, without a deadline of its own."""

    def open(self, method: Method) -> Stream: ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """Makes channels."""

    def connect(self, address: str) -> Channel: ...
