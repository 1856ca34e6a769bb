"""Server reflection under both of its names: newer clients ask `v1`, older ones, and grpcio's servicer, `v1alpha`.

Both have the same messages, so the one servicer answers for both. `Services` is what every server over sockets has."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection, reflection_pb2

from replog.rpc.gate import Gate
from replog.rpc.health import SERVICE as HEALTH
from replog.rpc.health import Health
from replog.rpc.methods import Method, methods_of
from replog.rpc.transport import Denied, ServerStream, unrecorded


def _v1() -> FileDescriptorProto:
    contract = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(contract)
    return text_format.Parse(text_format.MessageToString(contract).replace("v1alpha", "v1"), FileDescriptorProto())


descriptor_pool.Default().Add(_v1())
SERVICES = [
    descriptor_pool.Default().FindServiceByName(f"grpc.reflection.{version}.ServerReflection")
    for version in ("v1alpha", "v1")
]


class Reflection:
    """The handlers of each of `SERVICES`."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are those of the services here."""
        self._servicer = reflection.aio.ReflectionServicer(names)

    async def server_reflection_info(self, stream: ServerStream) -> None:
        async def requests() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
            while (request := await stream.receive()) is not None:
                yield reflection_pb2.ServerReflectionRequest.FromString(request.SerializeToString())

        async for answer in self._servicer.ServerReflectionInfo(requests(), None):
            await stream.send(answer)


class Services:
    """The services of one server, health checks among them."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._health = Health()
        self.add(HEALTH, self._health)

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unrecorded) -> None:
        for method in methods_of(service).values():
            self._serve(method, getattr(handlers, method.handler_name), Gate(method.path, method.limit), denied)
        self._names.append(service.full_name)

    def _serve(self, method: Method, handler: Callable[..., Any], gate: Gate, denied: Denied) -> None:
        raise NotImplementedError

    def add_reflection(self) -> None:
        handlers = Reflection([*self._names, *(service.full_name for service in SERVICES)])
        for service in SERVICES:
            self.add(service, handlers)

    async def set_serving(self, serving: bool, *services: str) -> None:
        """Set the answer of health.v1 for these services; without names, for the whole server and each service."""
        self._health.set_serving(services or ("", *self._names), serving)
