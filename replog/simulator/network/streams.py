"""A process's access to the simulated network: its transport, channels to servers, and streams over these."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from replog.rpc.transport import Channel, Pump, Server, Stream, send_answers
from replog.simulator.network.calls import Call, Connection, UnaryCall, again, decoded
from replog.simulator.network.links import Link, Order
from replog.simulator.network.network import SimulatedNetwork, SimulatedServer, lost
from replog.simulator.runtime.process import SimulatedProcess

WINDOW_MESSAGES, WINDOW_BYTES = 32, 64 << 10  # a sender waits while so much is sent and not yet read


class Pipe(Order):
    """One direction of a stream: the messages that one side has sent and the other has not read."""

    __slots__ = ("_items", "_link", "_loop", "_reader", "_unread", "_what", "_writers", "ended", "error", "refused")

    def __init__(self, call: Call, link: Link) -> None:
        super().__init__()
        self.ended = False  # nothing more arrives
        self.error: ReplogError | None = None  # why it ended; None: its sender had sent all
        self.refused: Exception | None = None  # the error of further sends
        self._loop = call.loop
        self._link = link
        self._what = call.what
        self._items: deque[bytes] = deque()
        self._unread = [0, 0]  # messages and bytes, wherever they are
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []

    async def send(self, data: bytes) -> None:
        while self.refused is None and (self._unread[0] >= WINDOW_MESSAGES or self._unread[1] >= WINDOW_BYTES):
            writer: asyncio.Future[None] = self._loop.create_future()
            self._writers.append(writer)
            await writer
        if self.refused is not None:
            raise again(self.refused) if isinstance(self.refused, ReplogError) else self.refused
        self._unread[0] += 1
        self._unread[1] += len(data)
        self._link.post_in_order(self, self._what, self._arrived, data)

    def _arrived(self, data: bytes) -> None:
        if not self.ended:
            self._items.append(data)
            self._wake(self._reader)

    async def receive(self) -> bytes | None:
        """Return the next message; None at the end. Raises the error that ended it, after all that had arrived."""
        while not self._items:
            if self.error is not None:
                raise again(self.error)
            if self.ended:
                return None
            self._reader = self._loop.create_future()
            await self._reader
        data = self._items.popleft()
        self._unread[0] -= 1
        self._unread[1] -= len(data)
        self._wake_writers()
        return data

    def end(self, error: ReplogError | None = None) -> None:
        """End the stream for the reader, after the messages that have arrived."""
        if not self.ended:
            self.ended = True
            self.error = error
            self._wake(self._reader)

    def drop(self, error: ReplogError | None) -> None:
        """End the stream for the reader, and drop the messages that have arrived."""
        self._items.clear()
        self.ended = True
        self.error = error
        self._wake(self._reader)

    def refuse(self, error: Exception) -> None:
        """Let further sends, and those that wait, raise `error`."""
        if self.refused is None:
            self.refused = error
            self._wake_writers()

    def _wake_writers(self) -> None:
        if self._writers:
            for writer in self._writers:
                self._wake(writer)
            self._writers.clear()

    @staticmethod
    def _wake(waiter: "asyncio.Future[None] | None") -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class StreamCall(Call, Pump):
    """A `replog.rpc.transport.Stream` of a client; the server has a `SimulatedServerStream`."""

    def __init__(self, channel: Connection, method: Method) -> None:
        Call.__init__(self, channel, method)
        Pump.__init__(self)
        self.requests = Pipe(self, self.up)
        self.responses = Pipe(self, self.down)
        self.up.post_in_order(self.requests, self.what, self._opened)

    # the client's side

    async def send(self, message: Any) -> None:
        await self.requests.send(self.method.encode_request(message))

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        if timeout_s is None:
            data = await self.responses.receive()
        else:
            try:
                async with asyncio.timeout(timeout_s):
                    data = await self.responses.receive()
            except TimeoutError:
                self.cancel()
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"{self.address} said nothing for {timeout_s:g} s") from None
        return None if data is None else self.method.decode_response(data)

    async def finish(self) -> None:
        await self.sent()
        if self.requests.refused is None:
            self.up.post_in_order(self.requests, self.what, self.requests.end)
            self.requests.refuse(ErrorCode.NETWORK_EXCEPTION.error(f"{self.address}: the stream has ended"))

    def cancel(self) -> None:
        if self.client_over:
            return
        error = ErrorCode.NETWORK_EXCEPTION.error(f"{self.address}: the call was cancelled")
        self.up.post_in_order(self.requests, self.what, self.server_hears)
        self.responses.drop(error)
        self._over_for_client(error)

    def client_hears(self, error: ReplogError | None) -> None:
        if not self.client_over:
            self.responses.end(error)
            self._over_for_client(error or ErrorCode.NETWORK_EXCEPTION.error(f"{self.address}: the stream has ended"))

    def _over_for_client(self, error: ReplogError) -> None:
        self.client_over = True
        self.requests.refuse(error)
        if self.server is None:
            self.server_over = True
        self.forget_if_over()

    # the server's side

    def cut(self) -> None:
        self.requests.cut(self.up.rng)
        self.responses.cut(self.down.rng)

    def server_hears(self) -> None:
        self.requests.end()
        self.responses.refuse(asyncio.InvalidStateError("the client is gone"))
        super().server_hears()

    def _opened(self) -> None:
        if self.server_over or not self.begin():
            self.server_over = True
            self.forget_if_over()

    async def handle(self, handler: Callable[..., Any], *_: bytes) -> bytes:
        stream = SimulatedServerStream(self)
        try:
            if self.method.client_streaming:
                await handler(stream)
                await stream.sent()
            elif (request := await stream.receive()) is not None:
                await send_answers(handler(request), stream.send)
        except asyncio.InvalidStateError:
            raise lost(self.address, "the client has gone") from None  # nobody hears it
        return b""

    def end(self, status: ReplogError | None, _answer: bytes) -> None:
        if not self.server_over:
            self.down.post_in_order(self.responses, self.what, self.client_hears, status)
        self.responses.refuse(asyncio.InvalidStateError("the call has ended"))
        self.requests.drop(None)
        self.server_over = True


class SimulatedServerStream(Pump):
    """A `replog.rpc.transport.ServerStream`."""

    waits_for_peer = True

    def __init__(self, call: StreamCall) -> None:
        super().__init__()
        self._call = call

    async def send(self, message: Any) -> None:
        await self._call.responses.send(self._call.method.encode_response(message))

    async def receive(self) -> Any | None:
        data = await self._call.requests.receive()
        return None if data is None else decoded(self._call.method.decode_request, data)


class SimulatedTransport:
    """A `replog.rpc.transport.Transport`."""

    tls = None

    def __init__(self, network: SimulatedNetwork, process: SimulatedProcess) -> None:
        network.is_back(process)
        self._network = network
        self._process = process

    def connect(self, address: str) -> Channel:
        return SimulatedChannel(self._network, self._process, address)

    def listen(self, address: str) -> Server:
        return SimulatedServer(self._network, self._process, address)

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        return await self._network.is_refused(self._process, address, timeout_s)


class SimulatedChannel(Connection):
    """A `replog.rpc.transport.Channel`."""

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any:
        self._check_open()
        return await UnaryCall(self, method).run(request, timeout_s)

    async def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        call = self.open(method)
        try:
            await call.send(request)
            await call.finish()
            while (message := await call.receive()) is not None:
                yield message
        finally:
            call.cancel()

    def open(self, method: Method) -> Stream:
        self._check_open()
        return StreamCall(self, method)

    async def close(self) -> None:
        self.closed = True
        for call in [call for call in self.network.calls if call.channel is self]:
            call.cancel()

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError(f"the channel to {self.address} is closed")  # a defect of the caller; grpc raises it too
