"""The client side of every call: `replog.rpc.transport` over grpc.aio."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from replog.errors import ErrorCode
from replog.rpc.grpcio.options import CHANNEL_OPTIONS, channel_credentials
from replog.rpc.grpcio.status import from_rpc_error
from replog.rpc.methods import Method
from replog.rpc.pump import Pump
from replog.rpc.tls import Tls


class GrpcStream(Pump):
    """`replog.rpc.transport.Stream`."""

    def __init__(self, call: Any, address: str) -> None:
        super().__init__()
        self._call = call
        self._address = address

    async def send(self, message: Any) -> None:
        with _mapped_errors(self._address):
            await self._call.write(message)

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        with _mapped_errors(self._address):
            try:
                async with asyncio.timeout(timeout_s):
                    message = await self._call.read()
            except TimeoutError:
                self.cancel()
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"{self._address} said nothing for {timeout_s:g} s") from None
            return None if message is grpc.aio.EOF else message

    async def finish(self) -> None:
        await self.sent()
        with _mapped_errors(self._address):
            await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()


class GrpcChannel:
    """`replog.rpc.transport.Channel`."""

    OPTIONS: tuple[tuple[str, int], ...] = CHANNEL_OPTIONS

    def __init__(self, address: str, tls: Tls | None = None) -> None:
        self.address = address
        self._tls = tls
        self._material = None if tls is None else tls.material
        self._channel = self._new_channel()
        self._before: list[Any] = []  # channels with older certificates, whose calls go on

    def _new_channel(self) -> Any:
        if self._material is None:
            return grpc.aio.insecure_channel(self.address, options=self.OPTIONS)
        return grpc.aio.secure_channel(self.address, channel_credentials(self._material), options=self.OPTIONS)

    def _current(self) -> Any:
        if self._tls is not None:
            self._tls.look_soon()
            if self._tls.material is not self._material:
                self._material = self._tls.material
                self._before.append(self._channel)
                self._channel = self._new_channel()
        return self._channel

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any:
        multi_callable = self._current().unary_unary(method.path, method.encode_request, method.decode_response)
        with _mapped_errors(self.address):
            return await multi_callable(request, timeout=timeout_s)

    async def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        multi_callable = self._current().unary_stream(method.path, method.encode_request, method.decode_response)
        call = multi_callable(request)
        try:
            with _mapped_errors(self.address):
                async for message in call:
                    yield message
        finally:
            call.cancel()

    def open(self, method: Method) -> GrpcStream:
        multi_callable = self._current().stream_stream(method.path, method.encode_request, method.decode_response)
        return GrpcStream(multi_callable(), self.address)

    async def close(self) -> None:
        for channel in (*self._before, self._channel):
            await channel.close()


@contextlib.contextmanager
def _mapped_errors(address: str) -> Any:
    try:
        yield
    except grpc.RpcError as error:
        raise from_rpc_error(error, address) from None
    except asyncio.InvalidStateError as error:  # the stream has already ended
        raise ErrorCode.NETWORK_EXCEPTION.error(f"{address}: the stream has ended: {error}") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # grpc.aio raises CancelledError when the call itself, not this task, was cancelled
        raise ErrorCode.NETWORK_EXCEPTION.error(f"{address}: the call was cancelled") from None
