"""The services of a server over sockets, and grpc.health.v1, which each has: an ordinary service."""

import inspect

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


class Services:
    """The services of one server, health checks among them: only `Check`, since tools ask again by themselves."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}  # the keys are paths
        self._names = [""]  # the server as a whole, and each service
        self._statuses: dict[str, int] = {}
        self.add(SERVICE, self)

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unrecorded) -> None:
        for method in methods_of(service).values():
            handler = getattr(handlers, method.handler_name)
            ends_with_answer = not method.client_streaming and inspect.iscoroutinefunction(handler)
            gate = Gate(method.path, method.limit)
            self.routes[method.path] = Route(method, handler, gate, denied, ends_with_answer)
        self._names.append(service.full_name)

    async def set_serving(self, serving: bool, *services: str) -> None:
        status = _Answer.SERVING if serving else _Answer.NOT_SERVING
        self._statuses.update(dict.fromkeys(services or self._names, status))

    async def check(self, request: health_pb2.HealthCheckRequest) -> health_pb2.HealthCheckResponse:
        status = self._statuses.get(request.service)
        if status is None:
            message = f"there is no service {request.service[:200]!r} here"
            raise CallEnded(CallStatus(code_pb2.NOT_FOUND, message, b""))
        return _Answer(status=status)
