"""Server reflection under both of its names: newer clients ask `v1`, older ones, and grpcio's servicer, `v1alpha`.

Both have the same messages, so the one servicer answers for both."""

from collections.abc import AsyncIterator, Iterable

from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection, reflection_pb2

from replog.rpc.transport import ServerStream


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
