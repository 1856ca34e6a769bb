"""Serves one call, over HTTP/2 of either kind: gate, request, handler, and the error that ends it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc.access import ACTION, Imposture
from replog.rpc.gate import Gate
from replog.rpc.lists import NamesTooMuch
from replog.rpc.methods import Method
from replog.rpc.peer import Peer
from replog.rpc.status import CallStatus, to_status
from replog.rpc.transport import Denied, ServerStream, send_answers

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 30.0  # the request of a call must arrive so soon
REFUSED_S = 0.1  # delays the refusal of a list that is too long, as Kafka's connection.failed.authentication.delay.ms


async def serve(
    method: Method, handler: Callable[..., Any], gate: Gate, stream: ServerStream, asks: Peer, denied: Denied
) -> None:
    """Serve a call as a stream both ways, which is the same on the wire for every method. So it passes the gate before
    its request is received, and the handler knows when a single answer was taken, too."""
    try:
        method.access.check_role(method.path, asks)
        with gate.place(asks):
            if method.client_streaming:
                await handler(stream)
                return
            request = await _only_request(stream)
            await send_answers(handler(request), stream.send)
    except NamesTooMuch as error:
        error.__traceback__ = None  # its frames have the request
        await asyncio.sleep(REFUSED_S)
        raise
    except Imposture as error:
        denied(asks, ACTION.name, error.resource, method.path, error.rule)
        raise


async def _only_request(stream: ServerStream) -> Any:
    """Receive the request. Raises REQUEST_TIMED_OUT if it does not arrive in full: others want the call's place."""
    try:
        request = await stream.receive(REQUEST_TIMEOUT_S)
    except TimeoutError:
        raise ErrorCode.REQUEST_TIMED_OUT.error(f"no request came within {REQUEST_TIMEOUT_S:g} s") from None
    if request is None:
        raise ErrorCode.INVALID_REQUEST.error("one request was to come, and none did")
    return request


def cannot_listen(address: str) -> ReplogError:
    return ErrorCode.INVALID_CONFIG.error(
        f"cannot listen on {address}: the port is in use or the address is not this machine's; "
        "choose another in 'listeners'"
    )


def decoded(decode: Callable[[bytes], Any], data: bytes) -> Any:
    """Return the request, or the `ReplogError` that says what is wrong with it. Raised, the error would keep `data`
    until the next whole collection of garbage."""
    try:
        return decode(data)
    except ReplogError as error:
        return error.with_traceback(None)
    except Exception as error:  # noqa: BLE001 (protobuf raises several kinds)
        return ErrorCode.INVALID_REQUEST.error(f"the message is not what this method takes: {error}")


class CallEnded(Exception):
    """A handler's end of its call with a status of gRPC's own, which is no error of replog's."""

    def __init__(self, status: CallStatus) -> None:
        super().__init__(status.message)
        self.status = status


def status_of(error: Exception) -> CallStatus:
    """Return the caller's status for a handler's error; a defect is logged, too."""
    if isinstance(error, CallEnded):
        return error.status
    if not isinstance(error, ReplogError):
        logger.error("a handler failed", exc_info=error)
        error = ErrorCode.UNKNOWN_SERVER_ERROR.error(f"{type(error).__name__}: {error}")
    return to_status(error)
