"""Transports between processes: a unary call, a stream of answers, a stream both ways, each with a deadline.

`replog.rpc.grpcio` and `replog.rpc.http2` implement this, and so does the simulator's network. Every failure of the
wire is a `ReplogError`: the peer's own error, REQUEST_TIMED_OUT or NETWORK_EXCEPTION."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol

from google.protobuf.descriptor import ServiceDescriptor

from replog.errors import ReplogError
from replog.log.offsets import Buffer
from replog.rpc.methods import Method
from replog.rpc.peer import Peer
from replog.rpc.tls import Tls

MAX_UNSENT = 2  # posted messages that wait; with so many a server reads no more


def always() -> bool:
    return True


Denied = Callable[[Peer, str, str, str, str], None]
"""Gets each refusal: the peer, the operation, the resource, the method's path, and the reason."""


def unrecorded(*_: object) -> None:
    """A `Denied` that keeps nothing."""


Handle = Callable[[Any], Iterator[None] | None]
"""Handles one message. If that takes long it gives steps, and others have their turn after each."""


class BothWays(Protocol):
    """Both sides of a stream. One task reads: by `receive`, or by `each`."""

    async def send(self, message: Any) -> None:
        """Send one message; wait while the peer reads too slowly."""

    def post(self, message: Any) -> None:
        """Send one message, without waiting: it stays in memory until the peer takes it. Messages posted before the
        stream is open are sent then; after its end, `post` does nothing. Use either `post` or `send`."""

    async def each(self, handle: Handle, ready: Callable[[], bool] = always) -> None:
        """Have `handle` called with each message, if possible from the socket's own callback.

        Returns when the peer has finished and all is handled; raises what `receive` raises, and what `handle` does. A
        message waits while `ready` is false: after a change call `go_on`."""

    def go_on(self) -> None:
        """Ask `ready` again soon. The messages that waited are handled in a later callback of the loop, never in this
        call."""


class Stream(BothWays, Protocol):
    """One bidirectional stream. It cannot be used after any error, or once the peer has finished."""

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        """Return the next message; None when the peer has finished. Raises REQUEST_TIMED_OUT after a timeout."""

    async def finish(self) -> None:
        """Send nothing more. Earlier messages still arrive, and the peer may still answer."""

    def cancel(self) -> None:
        """Give the stream up at once, on both sides."""


class Channel(Protocol):
    """A connection to one address, made when first used and again after it was lost."""

    address: str

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any: ...

    def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        """Yield the answers to one request, without a deadline of its own."""

    def open(self, method: Method) -> Stream: ...

    async def close(self) -> None: ...


class ServerStream(BothWays, Protocol):
    """The server's side of one bidirectional stream. Its `each` waits, too, while the client does not take what was
    posted: a client that does not read is not read from."""

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        """Return the next message; None when the client has finished or is gone. Raises TimeoutError."""


class TalkWire(Protocol):
    """The connection below a `Talk`."""

    asks: Peer
    idle_since: float  # the loop's time, s, since which nothing is under way; infinity while something is

    def write(self) -> None:
        """Write what `to_send` returns: now, or at the end of this turn of the loop."""

    def read(self, on: bool) -> None:
        """Read, or leave what comes to the peer's own socket."""

    def hang_up(self, why: str) -> None:
        """Write what there is, close the connection and log why."""

    def drained(self) -> None:
        """Note that nothing is under way any more after `drain`."""


class Spoken(Protocol):
    """One connection speaks it: it takes bytes and gives bytes, and knows no socket."""

    @property
    def places(self) -> object:
        """False if `place` need not be called."""
        return False

    @property
    def pending(self) -> object:
        """True after `to_send` if the connection has to go on."""
        return False

    @property
    def has_to_send(self) -> bool:
        """True if `to_send` returns something now."""
        return False

    def place(self) -> memoryview | None:
        """Return the place for the next bytes, if they have one of their own."""
        return None

    def to_send(self, size: int, /) -> list[Buffer]:
        """Return the next pieces to write, about so many bytes of them."""
        return []

    def receive(self, data: memoryview, now_ms: int, /) -> Sequence[Any] | None:
        """Handle `data`, and keep no reference to it; return what is left to handle. `now_ms` is any clock that does
        not go back."""
        return None

    def landed(self, size: int, now_ms: int, /) -> Sequence[Any] | None:
        """Handle `size` bytes that are in `place`, as `receive` does."""
        return None


class Talk(Spoken, Protocol):
    """Another protocol than gRPC on one connection of a server."""

    since_ms: int  # when it last held nothing, by the clock of `receive`

    def written(self) -> None:
        """Go on: all that `to_send` returned has left, or waits in the socket."""

    def held(self) -> int:
        """Return the bytes of messages that are incomplete, or that no handler has taken."""

    def busy(self) -> bool:
        """Return True while something is under way."""

    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the handlers that run."""

    def drain(self) -> None:
        """Take nothing new; what is under way goes on."""

    def close(self) -> None:
        """End what is under way, and forget the wire: the connection is lost. Nothing happens any more."""


NewTalk = Callable[[TalkWire], Talk]


class Server(Protocol):
    """One address and the services on it.

    A handler object has one method per rpc, under the rpc's name in snake_case:
    unary `async def f(request) -> response`; server stream `async def f(request)` as an async generator, which goes on
    when an answer has been taken, and a unary method may be one too; bidirectional `async def f(stream: ServerStream)
    -> None`. A `ReplogError` it raises ends the call with that error."""

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unrecorded) -> None:
        """Serve every rpc of `service` with the methods of `handlers`. `denied` gets each call for which the
        certificate has the wrong role or broker; the caller gets an error, too."""

    def serve_kafka(self, new_talk: NewTalk, *, grpc: bool) -> None:
        """Serve Kafka's clients, too, and without `grpc` only them: before `start`. A transport that cannot have such
        clients does nothing."""

    async def start(self) -> str:
        """Bind and serve, not yet healthy; return the address bound, which has the port when 0 was asked for.

        Raises INVALID_CONFIG when the address cannot be bound."""

    async def set_serving(self, serving: bool, *services: str) -> None:
        """Set the answer of health checks for these services; without names, for the whole server and each service."""

    @property
    def connections(self) -> int | None:
        """The number of open connections; None if the transport does not tell."""

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more, and end what still runs after `grace_s`."""


async def send_answers(
    handled: Awaitable[Any] | AsyncGenerator[Any, None], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Send the answers of a handler of one request: one message, or those that it yields."""
    if isinstance(handled, AsyncGenerator):
        async with contextlib.aclosing(handled) as messages:
            async for message in messages:
                await send(message)
    else:
        await send(await handled)


class Transport(Protocol):
    """Makes channels and servers, and finds out if a process listens."""

    @property
    def tls(self) -> Tls | None:
        """Their certificates and trust; None in plaintext."""

    def connect(self, address: str) -> Channel: ...

    def listen(self, address: str) -> Server: ...

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        """Return True if the host there says that nobody listens. Not without an answer: a silent process may live."""


class Pump:
    """Has `post` and `each` done by tasks, over `send` and `receive` of a stream. A server sets `waits_for_peer`."""

    waits_for_peer = False

    def __init__(self) -> None:
        self._unsent: deque[Any] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._defect: Exception | None = None
        self._may_go_on = asyncio.Event()

    def post(self, message: Any) -> None:
        self._unsent.append(message)
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all(), name="posted messages")

    async def send(self, message: Any) -> None:
        raise NotImplementedError

    async def receive(self) -> Any | None:
        raise NotImplementedError

    async def sent(self) -> None:
        """Wait until all that was posted is sent, or cannot be sent any more."""
        if self._sender is not None:
            await asyncio.wait((self._sender,))

    def go_on(self) -> None:
        self._may_go_on.set()

    async def each(self, handle: Handle, ready: Callable[[], bool] = always) -> None:
        """Receive one message before `ready` is asked."""
        task = asyncio.current_task()
        assert task is not None
        reader = self._reader = asyncio.create_task(self._read(handle, ready), name=task.get_name())
        try:
            await asyncio.wait((reader,))
            if self._defect is not None:
                raise self._defect
            reader.result()
        finally:
            self._reader = None
            if not reader.done():
                reader.cancel()
                await asyncio.wait((reader,))
            if not reader.cancelled():
                reader.exception()  # otherwise nobody takes the error if this task was cancelled in the same turn

    async def _read(self, handle: Handle, ready: Callable[[], bool]) -> None:
        while (message := await self.receive()) is not None:
            while (self.waits_for_peer and len(self._unsent) >= MAX_UNSENT) or not ready():
                self._may_go_on.clear()
                await self._may_go_on.wait()
            for _ in handle(message) or ():
                await asyncio.sleep(0)
            del message  # otherwise it stays in memory until the next one arrives

    async def _send_all(self) -> None:
        try:
            while self._unsent:
                await self.send(self._unsent[0])
                self._unsent.popleft()
                self._may_go_on.set()
        except (ReplogError, asyncio.InvalidStateError):
            pass  # the stream is over; its reader gets that after all messages
        except Exception as error:  # noqa: BLE001 (the reader ends with it)
            self._defect = error
            if self._reader is not None:
                self._reader.cancel()
        finally:
            self._sender = None
            self._unsent.clear()
            self._may_go_on.set()
