"""gRPC that loses answers."""

from collections.abc import Awaitable, Callable
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc.grpcio.channel import GrpcChannel, GrpcStream
from replog.rpc.methods import Log, Method
from replog.rpc.transports import GrpcTransport


async def _nothing() -> None: ...


class LosingTransport(GrpcTransport):
    """What is asked for is done, and nobody hears of it, as often as `loses` says so; a stream breaks then."""

    def __init__(self, loses: Callable[[Method], bool], then: Callable[[], Awaitable[None]] = _nothing) -> None:
        self.lost = 0
        self._loses = loses
        self._then = then

    def connect(self, address: str) -> GrpcChannel:
        return _LosingChannel(address, self)

    async def pass_on(self, method: Method, answer: Any) -> Any:
        if self._loses(method):
            self.lost += 1
            await self._then()
            raise ReplogError(ErrorCode.NETWORK_EXCEPTION, "lost by the test")
        return answer


class _LosingChannel(GrpcChannel):
    def __init__(self, address: str, transport: LosingTransport) -> None:
        super().__init__(address)
        self._transport = transport

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any:
        return await self._transport.pass_on(method, await super().call(method, request, timeout_s))

    def open(self, method: Method) -> GrpcStream:
        stream = super().open(method)
        receive = stream.receive

        async def receive_or_lose(timeout_s: float | None = None) -> Any:
            try:
                return await self._transport.pass_on(method, await receive(timeout_s))
            except ReplogError:
                stream.cancel()
                raise

        stream.receive = receive_or_lose  # type: ignore[method-assign]
        return stream


def loses_first(method: Method, then: Callable[[], Awaitable[None]] = _nothing) -> LosingTransport:
    """The first answer of this method; and `then` happens."""
    first = iter([True])
    return LosingTransport(lambda asked: asked is method and next(first, False), then)


def loses_acknowledgements(cut: Callable[[], bool]) -> LosingTransport:
    """Of producers, as often as `cut` says so."""
    return LosingTransport(lambda asked: asked is Log["produce"] and cut())
