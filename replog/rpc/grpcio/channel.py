"""`replog.rpc.transport` over grpc.aio: the client side of every call."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from replog.errors import ErrorCode, ReplogError
from replog.rpc.grpcio.options import CHANNEL_OPTIONS
from replog.rpc.grpcio.server import GrpcServer
from replog.rpc.grpcio.status import from_rpc_error
from replog.rpc.methods import Method
from replog.rpc.pump import Pump
from replog.rpc.refusal import is_refused


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
                raise ReplogError(
                    ErrorCode.REQUEST_TIMED_OUT, f"{self._address} said nothing for {timeout_s:g} s"
                ) from None
            return None if message is grpc.aio.EOF else message

    async def finish(self) -> None:
        await self.sent()
        with _mapped_errors(self._address):
            await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()


class GrpcChannel:
    """`replog.rpc.transport.Channel`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any:
        multi_callable = self._channel.unary_unary(method.path, method.encode_request, method.decode_response)
        with _mapped_errors(self.address):
            return await multi_callable(request, timeout=timeout_s)

    async def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        multi_callable = self._channel.unary_stream(method.path, method.encode_request, method.decode_response)
        call = multi_callable(request)
        try:
            with _mapped_errors(self.address):
                async for message in call:
                    yield message
        finally:
            call.cancel()

    def open(self, method: Method) -> GrpcStream:
        multi_callable = self._channel.stream_stream(method.path, method.encode_request, method.decode_response)
        return GrpcStream(multi_callable(), self.address)

    async def close(self) -> None:
        await self._channel.close()


class GrpcTransport:
    """`replog.rpc.transport.Transport`."""

    def connect(self, address: str) -> GrpcChannel:
        return GrpcChannel(address)

    def listen(self, address: str) -> GrpcServer:
        return GrpcServer(address)

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        return await is_refused(address, timeout_s)


@contextlib.contextmanager
def _mapped_errors(address: str) -> Any:
    try:
        yield
    except grpc.RpcError as error:
        raise from_rpc_error(error, address) from None
    except asyncio.InvalidStateError as error:  # a stream that has already ended
        raise ReplogError(ErrorCode.NETWORK_EXCEPTION, f"{address}: the stream has ended: {error}") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # grpc.aio raises CancelledError when the call itself, not this task, was cancelled
        raise ReplogError(ErrorCode.NETWORK_EXCEPTION, f"{address}: the call was cancelled") from None
