"""The client side of every call: `replog.rpc.transport` over grpc.aio; and channels for who has no event loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from replog.errors import ErrorCode, ReplogError
from replog.rpc.limits import MAX_ANSWER_BYTES, MAX_REQUEST_BYTES
from replog.rpc.methods import Method
from replog.rpc.status import DETAILS_KEY, CallStatus, from_status
from replog.rpc.tls import Material, Tls
from replog.rpc.transport import Pump

WINDOW = 256 << 10  # bytes of a stream that may arrive before anybody reads them: slow links carry so much in seconds
FLOW = (
    ("grpc.http2.lookahead_bytes", WINDOW),
    ("grpc.http2.bdp_probe", 0),  # otherwise gRPC finds the window by pings behind messages, also those of idle brokers
)
CHANNEL_OPTIONS = (
    *FLOW,
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", MAX_REQUEST_BYTES),
    ("grpc.use_local_subchannel_pool", 1),  # a lost connection is this channel's own
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3000),  # gRPC's name for the time that an attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 5000),  # so much silence brings a ping, which finds a vanished peer without a request
    ("grpc.keepalive_timeout_ms", 5000),  # TCP must acknowledge the ping, or any data, within this time
    ("grpc.http2.ping_timeout_ms", 30_000),  # the peer's process must answer within it, maybe after another answer
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.dns_min_time_between_resolutions_ms", 500),  # half a minute by default: a host that moved is found at once
    ("grpc.enable_http_proxy", 0),
)
_HINTS = {  # gRPC's words for a connection that fails because of TLS
    "Socket closed": "if it asks for TLS there, or a certificate, set security.protocol=SSL and ssl.keystore.location",
    "WRONG_VERSION_NUMBER": "no TLS is spoken there; set security.protocol=PLAINTEXT, or choose its port for TLS",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is refused; look at ssl.truststore.location, its hosts and dates",
    "Hostname Verification": "use a name or an address that it has, or issue it again with --host",
    "Unwrap failed": "it refuses our certificate, or asks for one; look at ssl.keystore.location",
}
_LOST = "Internal error from Core"  # replaces the status if that arrives while grpc.aio still writes a message
ENDED_EARLY = "the call ended before all was sent; ask again"


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
        self._channel = _connected(grpc.aio, self.address, self._material, self.OPTIONS)
        self._before: list[Any] = []  # channels with older certificates, whose calls go on

    def _current(self) -> Any:
        if self._tls is not None:
            self._tls.look_soon()
            if self._tls.material is not self._material:
                self._material = self._tls.material
                self._before.append(self._channel)
                self._channel = _connected(grpc.aio, self.address, self._material, self.OPTIONS)
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


def from_rpc_error(error: grpc.RpcError, address: str) -> ReplogError:
    if error.details() == _LOST:
        return ErrorCode.NETWORK_EXCEPTION.error(f"{address}: {ENDED_EARLY}")
    trailers = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    details = dict(trailers or ()).get(DETAILS_KEY, b"")
    failure = from_status(CallStatus(error.code().value[0], error.details() or "", details), address)
    hints = (hint for said, hint in _HINTS.items() if said in failure.message)
    if failure.code is ErrorCode.NETWORK_EXCEPTION and (hint := next(hints, "")):
        return failure.code.error(f"{failure.message}; {hint}")
    return failure


def blocking_channel(address: str, tls: Tls | None) -> Any:
    return _connected(grpc, address, None if tls is None else tls.material, CHANNEL_OPTIONS)


def _connected(library: Any, address: str, material: Material | None, options: tuple[tuple[str, int], ...]) -> Any:
    if material is None:
        return library.insecure_channel(address, options=options)
    credentials = grpc.ssl_channel_credentials(material.roots, material.keystore, material.keystore)
    return library.secure_channel(address, credentials, options=options)
