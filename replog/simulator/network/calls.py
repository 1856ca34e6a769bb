"""Unary calls over the simulated network."""

import asyncio
from collections.abc import Callable
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from replog.rpc.peer import handling
from replog.rpc.transport import send_answers
from replog.simulator.network.network import Call, Connection, lost
from replog.simulator.network.server import SimulatedServer


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
        if not self._request_survives or (server := self.server_found()) is None:
            return
        task = self.loop.spawn(server.process, self._serve(server, data))
        self.tasks.append(task)
        server.tasks[task] = None

    async def _serve(self, server: SimulatedServer, data: bytes) -> None:
        task = asyncio.current_task()
        assert task is not None
        answer = b""
        handling(self.asks)

        async def take(message: Any) -> None:
            nonlocal answer
            answer = self.method.encode_response(message)

        try:
            request = decoded(self.method.decode_request, data)
            await send_answers(self.handler(server)(request), take)
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
