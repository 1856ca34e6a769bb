"""The service over real gRPC."""

import asyncio
import random

import pytest

from replog.config import ControllerConfig
from replog.errors import ErrorCode
from replog.rpc import methods
from replog.rpc.channel import GrpcTransport
from replog.rpc.server import GrpcServer
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.clock import SystemClock
from replog.server.controller.active_controller import ActiveController
from replog.server.controller.service import ControllerService
from replog.server.controller.sqlite_store import SqliteStore


@pytest.fixture
async def channel(tmp_path):
    config = ControllerConfig.parse({"metadata.log.dir": str(tmp_path)}, "test")
    controller = ActiveController(config, SqliteStore(tmp_path), GrpcTransport(), SystemClock(), random.Random(3))
    server = GrpcServer("127.0.0.1:0")
    server.add(methods.CONTROLLER, ControllerService(controller))
    await controller.start()
    connected = GrpcTransport().connect(await server.start())
    yield connected
    await connected.close()
    await controller.stop()
    await server.stop(1)


async def call(channel, method, request):
    return await channel.call(methods.Controller[method], request, 5.0)


async def register(channel, broker_id, incarnation=b"a" * 16):
    request = pb.RegisterBrokerRequest(
        broker_id=broker_id, incarnation_id=incarnation, address=f"h{broker_id}:1", previous_broker_epoch=-1
    )
    return await call(channel, "register_broker", request)


async def test_a_broker_registers_watches_is_unfenced_and_a_topic_is_created_and_deleted(channel):
    registered = await register(channel, 1)
    watch = channel.watch(methods.Controller["watch_metadata"], pb.WatchMetadataRequest())
    delta = await asyncio.wait_for(anext(watch), 60)
    assert delta.version == registered.broker_epoch
    heartbeat = pb.HeartbeatRequest(broker_id=1, broker_epoch=registered.broker_epoch, metadata_version=delta.version)
    answer = await call(channel, "heartbeat", heartbeat)
    assert (answer.is_caught_up, answer.is_fenced) == (True, False)
    created = await call(channel, "create_topic", pb.CreateTopicRequest(topic="t", replication_factor=1))
    keys = []
    while delta.version < created.metadata_version:
        delta = await asyncio.wait_for(anext(watch), 60)
        keys += [record.key for record in delta.records]
    assert keys == ["broker/1", "topic/t", "partition/t/0"]
    deleted = await call(channel, "delete_topic", pb.DeleteTopicRequest(topic="t"))
    assert deleted.metadata_version == created.metadata_version + 2
    await watch.aclose()


async def test_errors_cross_the_wire_with_code_and_message(channel, refused):
    await register(channel, 1)
    with refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "broker 1", "ms"):
        await register(channel, 1, b"b" * 16)
    with refused(ErrorCode.STALE_BROKER_EPOCH, "broker 2"):
        await call(channel, "alter_partition", pb.AlterPartitionRequest(broker_id=2))
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic t"):
        await call(channel, "delete_topic", pb.DeleteTopicRequest(topic="t"))
    with refused(ErrorCode.NOT_CONTROLLER, "version 77"):
        await anext(channel.watch(methods.Controller["watch_metadata"], pb.WatchMetadataRequest(after_version=77)))
