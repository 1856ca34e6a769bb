"""Calls over the simulated network: what unary calls and streams have in common, and unary calls."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from replog.rpc.peer import Peer, Role, handling
from replog.rpc.transport import send_answers
from replog.simulator.network.network import NOTICED_S, SimulatedNetwork, SimulatedServer, lost
from replog.simulator.runtime.loop import KERNEL
from replog.simulator.runtime.process import CONTROLLER, DEAD, SimulatedProcess


def proved(process: str) -> Peer:
    """Return the peer that a certificate of the process would name: `broker-1`, `controller` or, for `consumer-2`,
    a consumer."""
    if process.startswith(CONTROLLER):
        return Peer(f"Controller:{process}", Role.CONTROLLER, process)
    kind, _, number = process.partition("-")
    if kind == "broker":
        return Peer(f"Broker:{number}", Role.BROKER, process)
    return Peer(f"User:{kind}", Role.CLIENT, process)


def again(error: ReplogError) -> ReplogError:
    """Copy an error, as the other side receives it."""
    return ReplogError(error.code, error.message, error.instead)


def decoded(decode: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return decode(data)
    except ReplogError:
        raise
    except Exception as error:  # noqa: BLE001 (protobuf raises several kinds)
        raise ErrorCode.INVALID_REQUEST.error(f"the message is not what this method takes: {error}") from None


class Connection:
    """A channel as its calls see it."""

    def __init__(self, network: SimulatedNetwork, process: SimulatedProcess, address: str) -> None:
        self.network = network
        self.process = process
        self.address = address
        self.closed = False


class Call(ABC):
    """A unary call or a stream between two processes, each of which learns for itself that it is over."""

    def __init__(self, channel: Connection, method: Method) -> None:
        network = self.network = channel.network
        self.loop = network.loop
        self.channel = channel
        self.client = channel.process
        self.asks = proved(channel.process.name)
        self.address = channel.address
        self.method = method
        self.what = method.handler_name
        self.server = network.reachable(channel.address)  # None: there is no connection yet
        self.up = network.link(channel.process.name, network.host(channel.address))
        self.down = network.link(network.host(channel.address), channel.process.name)
        self.tasks: list[asyncio.Task[None]] = []  # the handler's
        self.broken = False
        self.client_over = False
        self.server_over = False
        network.calls[self] = None

    def break_off(self, client_s: float | None, server_s: float | None) -> None:
        """Break the connection. Each side notices after that many seconds; None: never."""
        if not self.broken:
            self.broken = True
            self.cut()
        if client_s is not None:
            error = lost(self.address, "the connection was lost")
            self.loop.call_later(client_s, self.client_hears, error, context=KERNEL)
        if server_s is not None:
            self.loop.call_later(server_s, self.server_hears, context=KERNEL)

    @abstractmethod
    def cut(self) -> None:
        """Decide which messages under way still arrive."""

    @abstractmethod
    def client_hears(self, error: ReplogError) -> None:
        """End the call for the client, with this error."""

    @abstractmethod
    def cancel(self) -> None:
        """Give the call up, as its client."""

    def server_hears(self) -> None:
        """End the call for the server, since its client has gone."""
        self.server_over = True
        for task in self.tasks:
            task.cancel()
        self.forget_if_over()

    def client_died(self) -> None:
        self.client_over = True
        self.forget_if_over()

    def server_died(self) -> None:
        self.server_over = True
        self.tasks.clear()
        self.forget_if_over()

    def forget_if_over(self) -> None:
        if self.client_over and self.server_over and not self.tasks:
            self.network.calls.pop(self, None)

    # the server's side

    def begin(self, *request: bytes) -> bool:
        """Have a message handled that has just arrived. Return False if no server is there; the client will hear so."""
        server, reached = self.network.servers.get(self.address), self.network.reachable(self.address)
        if server is not None and server.process.state is DEAD and server.process.lost_power:
            self.break_off(self.up.rng.uniform(*NOTICED_S), None)  # silence
            return False
        if reached is None or self.server not in (None, reached):
            why = "connection reset" if self.server is not None else "connection refused"
            self.loop.call_later(self.down.delay_s(), self.client_hears, lost(self.address, why), context=KERNEL)
            return False
        self.server = reached
        task = self.loop.spawn(reached.process, self._serve(reached, *request))
        self.tasks.append(task)
        reached.tasks[task] = None
        return True

    async def _serve(self, server: SimulatedServer, *request: bytes) -> None:
        task = asyncio.current_task()
        assert task is not None
        handling(self.asks)
        answer = b""
        status: ReplogError | None = lost(self.address, "the call was cancelled by the server")
        try:
            handler = server.handlers.get(self.method.path)
            if handler is None:
                raise ErrorCode.UNKNOWN_SERVER_ERROR.error(f"{self.address}: UNIMPLEMENTED: {self.method.path}")
            answer = await self.handle(handler, *request)
            status = None
        except ReplogError as error:
            status = again(error)
        except Exception as error:  # noqa: BLE001 (no handler should raise it, and the simulation fails)
            self.loop.failed(server.process, f"the handler of {self.what} failed", error)
            status = ErrorCode.UNKNOWN_SERVER_ERROR.error(f"{type(error).__name__}: {error}")
        finally:
            server.tasks.pop(task, None)
            if task in self.tasks:
                self.tasks.remove(task)
            self.end(status, answer)
            self.forget_if_over()

    @abstractmethod
    async def handle(self, handler: Callable[..., Any], *request: bytes) -> bytes:
        """Run the handler, and return a unary call's answer."""

    @abstractmethod
    def end(self, status: ReplogError | None, answer: bytes) -> None:
        """Tell the client that the handler has ended, and how."""


class UnaryCall(Call):
    """One request, one answer, a deadline; the handler runs for each copy of the request that arrives."""

    def __init__(self, channel: Connection, method: Method) -> None:
        super().__init__(channel, method)
        self._answer: asyncio.Future[bytes] = self.loop.create_future()
        self._request_survives = True
        self.server_over = True  # the server's side is over once its tasks are

    async def run(self, request: Any, timeout_s: float) -> Any:
        data = self.method.encode_request(request)
        timer = self.loop.call_later(timeout_s, self._expire)
        self.up.post(self.what, self._arrived, data, request=True)
        try:
            answer = await self._answer
        except asyncio.CancelledError:
            self.up.post(self.what, self.server_hears)
            raise
        finally:
            timer.cancel()
            self.client_over = True
            self.forget_if_over()
        return self.method.decode_response(answer)

    def _expire(self) -> None:
        self._give_up(ErrorCode.REQUEST_TIMED_OUT.error(f"{self.address} did not answer in time"))

    def cancel(self) -> None:
        self._give_up(ErrorCode.NETWORK_EXCEPTION.error(f"{self.address}: the call was cancelled"))

    def _give_up(self, error: ReplogError) -> None:
        self.client_hears(error)
        self.up.post(self.what, self.server_hears)

    def cut(self) -> None:
        self._request_survives = self.up.rng.random() < 0.5

    def client_hears(self, error: ReplogError) -> None:
        if not self.client_over and not self._answer.done():
            self._answer.set_exception(error)

    def _arrived(self, data: bytes) -> None:
        if self._request_survives:
            self.begin(data)

    async def handle(self, handler: Callable[..., Any], *request: bytes) -> bytes:
        answer = b""

        async def take(message: Any) -> None:
            nonlocal answer
            answer = self.method.encode_response(message)

        await send_answers(handler(decoded(self.method.decode_request, *request)), take)
        return answer

    def end(self, status: ReplogError | None, answer: bytes) -> None:
        if status is not None:
            self.down.post(self.what, self.client_hears, status)
        else:
            self.down.post(self.what, self._answered, answer)

    def _answered(self, data: bytes) -> None:
        if not self._answer.done():
            self._answer.set_result(data)
