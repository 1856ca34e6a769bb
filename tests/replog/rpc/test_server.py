"""What a server is to any gRPC client, and to tools that ask for its contracts."""

from collections.abc import AsyncIterator

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

from replog.rpc import methods
from tests.replog.rpc.handlers import Handlers, serving


@pytest.fixture
async def server() -> AsyncIterator[str]:
    async with serving(Handlers(), methods.LOG, methods.INSPECTION) as address:
        yield address


async def test_health_is_served(server):
    async with grpc.aio.insecure_channel(server) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "replog.v1.Log"):
            response = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
            assert response.status == health_pb2.HealthCheckResponse.SERVING


async def ask(server: str, version: str, *requests: ServerReflectionRequest) -> list[ServerReflectionResponse]:
    async with grpc.aio.insecure_channel(server) as channel:
        call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            ServerReflectionRequest.SerializeToString,
            ServerReflectionResponse.FromString,
        )
        return [answer async for answer in call(iter(requests), timeout=60)]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_a_server_names_its_services_under_the_old_name_and_the_new_one(server, version):
    [answer] = await ask(server, version, ServerReflectionRequest(list_services="*"))
    assert [service.name for service in answer.list_services_response.service] == [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "replog.v1.Inspection",
        "replog.v1.Log",
    ]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_it_has_the_contract_of_each_and_an_answer_to_a_name_that_it_does_not_know(server, version):
    names = ["replog.v1.Log", "grpc.health.v1.Health", f"grpc.reflection.{version}.ServerReflection", "no.such.Name"]
    *found, unknown = await ask(server, version, *(ServerReflectionRequest(file_containing_symbol=n) for n in names))
    for name, answer in zip(names, found, strict=False):
        files = map(FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto)
        assert name in {f"{file.package}.{service.name}" for file in files for service in file.service}
    assert unknown.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
