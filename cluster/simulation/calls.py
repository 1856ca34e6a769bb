"""Unary calls over the simulated network."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from cluster.simulation.links import Link
from cluster.simulation.loop import KERNEL
from cluster.simulation.process import DEAD, SimulatedProcess
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from replog.rpc.transport import answers

if TYPE_CHECKING:
    from cluster.simulation.network import SimulatedChannel, SimulatedServer

NOTICED_S = 5.0, 20.0  # how long a connection lives on which nothing gets through


def lost(address: str, why: str) -> ReplogError:
    return ReplogError(ErrorCode.NETWORK_EXCEPTION, f"{address} cannot be reached: {why}")


def again(error: ReplogError) -> ReplogError:
    """The same error on the other side."""
    return ReplogError(error.code, error.message)


def decoded(decode: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return decode(data)
    except ReplogError:
        raise
    except Exception as error:  # noqa: BLE001 (protobuf raises several kinds)
        raise ReplogError(ErrorCode.INVALID_REQUEST, f"the message is not what this method takes: {error}") from None


class Call:
    """What unary calls and streams have in common: two processes, each of which learns for itself that it is over."""

    def __init__(self, channel: "SimulatedChannel", method: Method) -> None:
        network = channel.network
        self.network = network
        self.loop = network.loop
        self.channel = channel
        self.client = channel.process
        self.address = channel.address
        self.method = method
        self.server: SimulatedServer | None = network.reachable(channel.address)  # which it has a connection to
        self.up: Link = network.link(channel.process.name, network.host(channel.address))
        self.down: Link = network.link(network.host(channel.address), channel.process.name)
        self.tasks: list[asyncio.Task[None]] = []  # the handler's
        self.broken = False
        self.client_over = False
        self.server_over = False
        network.calls[self] = None

    @property
    def what(self) -> str:
        return self.method.handler_name

    def between(self, one: str, other: str) -> bool:
        return {self.up.source, self.up.target} == {one, other}

    def server_found(self) -> "SimulatedServer | None":
        """Which server takes what has just arrived; None, with news for the client, when there is none."""
        found = self.network.servers.get(self.address)
        if found is not None and found.process.state is DEAD and found.process.lost_power:
            self.break_off(self.up.chance.uniform(*NOTICED_S), None)  # silence
            return None
        if self.server is not None and self.server is not found:
            found = None
        if found is None or found.process.state is DEAD or not found.accepting:
            why = "connection reset" if self.server is not None else "connection refused"
            self.loop.call_later(self.down.delay_s(), self.client_hears, lost(self.address, why), context=KERNEL)
            return None
        self.server = found
        return found

    def break_off(self, client_s: float | None, server_s: float | None) -> None:
        """The connection is no more; each side notices after so many seconds, if ever."""
        if not self.broken:
            self.broken = True
            self.cut()
        if client_s is not None:
            error = lost(self.address, "the connection was lost")
            self.loop.call_later(client_s, self.client_hears, error, context=KERNEL)
        if server_s is not None:
            self.loop.call_later(server_s, self.server_hears, context=KERNEL)

    def cut(self) -> None:
        """Decide what of that which is under way still arrives."""
        raise NotImplementedError

    def client_hears(self, error: ReplogError) -> None:
        """It is over for the client."""
        raise NotImplementedError

    def cancel(self) -> None:
        """The client gives it up."""
        raise NotImplementedError

    def server_hears(self) -> None:
        """The client is gone."""
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

    def handler(self, server: "SimulatedServer") -> Callable[..., Any]:
        found = server.handlers.get(self.method.path)
        if found is None:
            raise ReplogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{self.address}: UNIMPLEMENTED: {self.method.path}")
        return found

    def defect(self, process: SimulatedProcess, error: Exception) -> ReplogError:
        """What a client gets to know of an exception that no handler should raise; the simulation has failed."""
        self.loop.failed(process, f"the handler of {self.what} failed", error)
        return ReplogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")


class UnaryCall(Call):
    """One request, one answer, a deadline; the handler runs for each copy of the request that arrives."""

    def __init__(self, channel: "SimulatedChannel", method: Method) -> None:
        super().__init__(channel, method)
        self._answer: asyncio.Future[bytes] = self.loop.create_future()
        self._request_survives = True
        self.server_over = True  # but for the tasks that run

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
        self._give_up(ReplogError(ErrorCode.REQUEST_TIMED_OUT, f"{self.address} did not answer in time"))

    def cancel(self) -> None:
        self._give_up(ReplogError(ErrorCode.NETWORK_EXCEPTION, f"{self.address}: the call was cancelled"))

    def _give_up(self, error: ReplogError) -> None:
        self.client_hears(error)
        self.up.post(self.what, self.server_hears)

    def cut(self) -> None:
        self._request_survives = self.up.chance.random() < 0.5

    def client_hears(self, error: ReplogError) -> None:
        if not self.client_over and not self._answer.done():
            self._answer.set_exception(error)

    def _arrived(self, data: bytes) -> None:
        if not self._request_survives or (server := self.server_found()) is None:
            return
        task = self.loop.spawn(server.process, self._serve(server, data))
        self.tasks.append(task)
        server.tasks[task] = self

    async def _serve(self, server: "SimulatedServer", data: bytes) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            request = decoded(self.method.decode_request, data)
            async with aclosing(answers(self.handler(server)(request))) as messages:
                answer = self.method.encode_response(await anext(messages))
        except asyncio.CancelledError:
            error = lost(self.address, "the call was cancelled by the server")
            self.down.post(self.what, self.client_hears, error)
            raise
        except ReplogError as error:
            self.down.post(self.what, self.client_hears, again(error))
        except Exception as error:  # noqa: BLE001 (the boundary)
            self.down.post(self.what, self.client_hears, self.defect(server.process, error))
        else:
            self.down.post(self.what, self._answered, answer)
        finally:
            server.tasks.pop(task, None)
            if task in self.tasks:
                self.tasks.remove(task)
            self.forget_if_over()

    def _answered(self, data: bytes) -> None:
        if not self._answer.done():
            self._answer.set_result(data)
