"""How processes reach each other: a unary call, a stream of answers, a stream both ways, each with a deadline.

`replog.rpc.grpcio` and `replog.rpc.http2` implement this, and so does the simulator's network. Every failure of the
wire is a `ReplogError`: the peer's own error, REQUEST_TIMED_OUT or NETWORK_EXCEPTION."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from google.protobuf.descriptor import ServiceDescriptor

from replog.rpc.methods import Method
from replog.rpc.peer import Peer
from replog.rpc.tls import Tls


def always() -> bool:
    return True


Denied = Callable[[Peer, str, str, str, str], None]
"""Hears who may not do what: the peer, the operation, the resource, the method's path, and why."""


def unheard(*_: object) -> None:
    """A `Denied` that keeps nothing."""


class BothWays(Protocol):
    """What both sides of a stream can do. One task reads: by `receive`, or by `each`."""

    async def send(self, message: Any) -> None:
        """Hand one message over; waits while the peer reads too slowly."""

    def post(self, message: Any) -> None:
        """Hand one message over, without waiting: what the peer does not take waits in memory. What is posted before
        the stream is open goes out then; once it has ended, `post` does nothing. Who posts does not `send`, too."""

    async def each(self, handle: Callable[[Any], None], ready: Callable[[], bool] = always) -> None:
        """Have `handle` called with each message, where that is possible from the socket's own callback.

        Returns when the peer has finished and all is handled; raises what `receive` raises, and what `handle` does.
        A message waits while `ready` is false: after a change call `go_on`."""

    def go_on(self) -> None:
        """Ask `ready` again soon. The messages that waited are handled in a later callback of the loop, never in this
        call."""


class Stream(BothWays, Protocol):
    """One bidirectional stream. After any error, or once the peer has finished, it is of no more use."""

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


class ServerStream(BothWays, Protocol):
    """The server's side of one bidirectional stream. Its `each` waits, too, while the client does not take what was
    posted: who does not read is not read from."""

    async def receive(self) -> Any | None:
        """The next message; None when the client has finished or is gone."""


class Server(Protocol):
    """One address and the services on it.

    A handler object has one method per rpc, under the rpc's name in snake_case:
    unary `async def f(request) -> response`; server stream `async def f(request)` as an async generator, which goes on
    when an answer has been taken, and a unary method may be one too; bidirectional `async def f(stream: ServerStream)
    -> None`. A `ReplogError` it raises ends the call with that error."""

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unheard) -> None:
        """Serve every rpc of `service` with the methods of `handlers`. `denied` hears whose certificate is of another
        role or of another broker than a call is for; the caller hears it, too."""

    async def start(self) -> str:
        """Bind and serve, not yet healthy; returns the address bound, which tells the port when 0 was asked for.

        Raises INVALID_CONFIG when the address cannot be bound."""

    async def set_serving(self, serving: bool, *services: str) -> None:
        """What a health check answers, for these services; else for the whole server and each one."""

    @property
    def connections(self) -> int | None:
        """How many are open; None if the transport does not tell."""

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more, and end what still runs after `grace_s`."""


async def send_answers(
    handled: Awaitable[Any] | AsyncGenerator[Any, None], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Send what a handler of one request answers: one message, or those that it yields."""
    if isinstance(handled, AsyncGenerator):
        async with contextlib.aclosing(handled) as messages:
            async for message in messages:
                await send(message)
    else:
        await send(await handled)


class Transport(Protocol):
    """Makes channels and servers, and knows whether a process listens."""

    @property
    def tls(self) -> Tls | None:
        """What they show and believe; None in plaintext."""

    def connect(self, address: str) -> Channel: ...

    def listen(self, address: str) -> Server: ...

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        """Whether the host there says that nobody listens. Not without an answer: who is silent may be alive."""
