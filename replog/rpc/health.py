"""Answers grpc.health.v1: the handlers of an ordinary service, over any transport."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from google.rpc import code_pb2
from grpc_health.v1 import health_pb2

from replog.rpc.serving import CallEnded
from replog.rpc.status import CallStatus

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
