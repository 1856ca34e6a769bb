"""The services of a server over sockets, and grpc.health.v1, which each has: an ordinary service."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterable

from google.protobuf.descriptor import ServiceDescriptor
from google.rpc import code_pb2
from grpc_health.v1 import health_pb2

from replog.rpc.methods import methods_of
from replog.rpc.serving import CallEnded, Gate, Route
from replog.rpc.status import CallStatus
from replog.rpc.transport import Denied, unrecorded

SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]
READY = "ready"  # a broker serves, and each of its replicas is in sync, so that another broker may be restarted
_Answer = health_pb2.HealthCheckResponse


class Health:
    def __init__(self) -> None:
        self._statuses: dict[str, int] = {}
        self._changed = asyncio.Event()

    def set_serving(self, names: Iterable[str], serving: bool) -> None:
        """Set the status of these services; "" is the server as a whole."""
        before = self._statuses
        self._statuses = before | dict.fromkeys(names, _Answer.SERVING if serving else _Answer.NOT_SERVING)
        if self._statuses == before:
            return
        self._changed.set()
        self._changed = asyncio.Event()

    async def check(self, request: health_pb2.HealthCheckRequest) -> health_pb2.HealthCheckResponse:
        status = self._statuses.get(request.service)
        if status is None:
            message = f"there is no service {request.service[:200]!r} here"
            raise CallEnded(CallStatus(code_pb2.NOT_FOUND, message, b""))
        return _Answer(status=status)

    async def list(self, _request: health_pb2.HealthListRequest) -> health_pb2.HealthListResponse:
        statuses = {name: _Answer(status=status) for name, status in self._statuses.items()}
        return health_pb2.HealthListResponse(statuses=statuses)

    async def watch(self, request: health_pb2.HealthCheckRequest) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Yield the status now, and each one after it, except those that are replaced at once."""
        said = None
        while True:
            changed, status = self._changed, self._statuses.get(request.service, _Answer.SERVICE_UNKNOWN)
            if status != said:
                said = status
                yield _Answer(status=status)
            await changed.wait()


class Services:
    """The services of one server, health checks among them."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self.routes: dict[str, Route] = {}  # the keys are paths
        self._health = Health()
        self.add(SERVICE, self._health)

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unrecorded) -> None:
        for method in methods_of(service).values():
            handler = getattr(handlers, method.handler_name)
            ends_with_answer = not method.client_streaming and inspect.iscoroutinefunction(handler)
            gate = Gate(method.path, method.limit)
            self.routes[method.path] = Route(method, handler, gate, denied, ends_with_answer)
        self._names.append(service.full_name)

    async def set_serving(self, serving: bool, *services: str) -> None:
        self._health.set_serving(services or ("", *self._names), serving)
