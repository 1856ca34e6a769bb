"""Every server over sockets has services, grpc.health.v1 among them, and the same way of a call: its place among
others, its request, its handler, and the error that ends it."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf.descriptor import ServiceDescriptor
from google.rpc import code_pb2
from grpc_health.v1 import health_pb2

from replog.errors import ErrorCode, ReplogError
from replog.rpc.fair_queue import FairQueue
from replog.rpc.limits import Limit
from replog.rpc.lists import NamesTooMuch
from replog.rpc.methods import Method, methods_of
from replog.rpc.peer import ACTION, ANONYMOUS, Imposture, Peer
from replog.rpc.status import CallStatus, to_status
from replog.rpc.transport import Denied, NewTalk, ServerStream, send_answers, unrecorded

logger = logging.getLogger(__name__)

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]
READY = "ready"  # a broker serves, and each of its replicas is in sync, so that another broker may be restarted
_Answer = health_pb2.HealthCheckResponse
REQUEST_TIMEOUT_S = 30.0  # the request of a call must arrive so soon
REFUSED_S = 0.1  # delays the refusal of a list that is too long, as Kafka's connection.failed.authentication.delay.ms


@dataclass(slots=True, eq=False)
class _Call:
    who: str
    task: "asyncio.Task[None] | None"
    gives_way: bool = False


class Gate:
    """Bounds the calls of one method that run on one server, so that nobody takes all places from others. Each does its
    work inside of `with gate.place(asks)`."""

    def __init__(self, path: str, limit: Limit) -> None:
        self._path = path
        self._limit = limit
        self._calls = FairQueue[str, _Call]()  # the peers are principals, or hosts of peers that proved nothing

    @contextlib.contextmanager
    def place(self, asks: Peer) -> Iterator[None]:
        """Take a place for a call. When all are taken, the peer that has most gives its newest to one that has at least
        two less.

        Raises THROTTLING_QUOTA_EXCEEDED if none has, or when this call has to give way."""
        call = _Call(asks.host if asks.principal == ANONYMOUS else asks.principal, asyncio.current_task())
        if len(self._calls) >= self._limit.calls:
            if not (crowd := self._calls.crowd(call.who)):
                raise self._full()
            newest = crowd[-1]
            newest.gives_way = True
            self._calls.remove(newest.who, newest)
            if newest.task is not None:
                newest.task.cancel()
        self._calls.add(call.who, call)
        try:
            yield
        except asyncio.CancelledError:
            if call.gives_way:
                raise self._full() from None
            raise
        finally:
            self._calls.remove(call.who, call)

    def _full(self) -> ReplogError:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
            f"{len(self._calls)} calls of {self._path} are under way here, and no more are taken; try again later"
        )


class Route(NamedTuple):
    method: Method
    handler: Callable[..., Any]
    gate: Gate
    denied: Denied
    ends_with_answer: bool  # the handler does nothing after its one answer


async def serve(route: Route, stream: ServerStream, asks: Peer) -> None:
    """Serve a call as a stream both ways, which is the same on the wire for every method. So it passes the gate before
    its request is received, and the handler knows when a single answer was taken, too."""
    method = route.method
    try:
        method.access.check_role(method.path, asks)
        with route.gate.place(asks):
            if method.client_streaming:
                await route.handler(stream)
                return
            try:
                request = await stream.receive(REQUEST_TIMEOUT_S)  # others want the call's place
            except TimeoutError:
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"no request came within {REQUEST_TIMEOUT_S:g} s") from None
            if request is None:
                raise ErrorCode.INVALID_REQUEST.error("one request was to come, and none did")
            await send_answers(route.handler(request), stream.send)
    except NamesTooMuch as error:
        error.__traceback__ = None  # its frames have the request
        await asyncio.sleep(REFUSED_S)
        raise
    except Imposture as error:
        route.denied(asks, ACTION.name, error.resource, method.path, error.rule)
        raise


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


class Services:
    """The services of one server, health checks among them: only `Check`, since tools ask again by themselves."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}  # the keys are paths
        self._names = [""]  # the server as a whole, and each service
        self._statuses: dict[str, int] = {}
        self.add(HEALTH, self)

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unrecorded) -> None:
        for method in methods_of(service).values():
            handler = getattr(handlers, method.handler_name)
            ends_with_answer = not method.client_streaming and inspect.iscoroutinefunction(handler)
            gate = Gate(method.path, method.limit)
            self.routes[method.path] = Route(method, handler, gate, denied, ends_with_answer)
        self._names.append(service.full_name)

    def serve_kafka(self, _new_talk: NewTalk, *, grpc: bool) -> None:
        """A transport that can serve others than gRPC's clients does."""

    async def set_serving(self, serving: bool, *services: str) -> None:
        status = _Answer.SERVING if serving else _Answer.NOT_SERVING
        self._statuses.update(dict.fromkeys(services or self._names, status))

    async def check(self, request: health_pb2.HealthCheckRequest) -> health_pb2.HealthCheckResponse:
        status = self._statuses.get(request.service)
        if status is None:
            message = f"there is no service {request.service[:200]!r} here"
            raise CallEnded(CallStatus(code_pb2.NOT_FOUND, message, b""))
        return _Answer(status=status)
