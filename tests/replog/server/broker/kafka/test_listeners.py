"""Which protocols a broker's listeners speak: `listener.protocols`."""

import struct

import pytest

from replog.config.processes import BrokerConfig
from replog.errors import ReplogError
from replog.kafka.messages import ApiVersionsRequest
from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from tests.replog.server.broker.kafka.client import connected

METADATA = methods.Log["get_metadata"]
LISTENERS = {
    "listeners": "BROKERS://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "inter_broker_listener_name": "BROKERS",
    "listener_security_protocol_map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
}


async def speaks_kafka(address: str) -> bool:
    async with connected(address) as kafka:
        kafka.writer.write(struct.pack(">ihhih", 10, 18, 0, 7, -1))
        head = await kafka.reader.read(8)
        return head[4:] == struct.pack(">i", 7)


async def speaks_grpc(cluster, address: str) -> bool:
    try:
        admin = cluster.channel(address)
        await admin.call(METADATA, log_pb2.GetMetadataRequest(), 60.0)
    except ReplogError:
        return False
    return True


@pytest.mark.parametrize(
    ("setting", "of_brokers", "of_clients"),
    [
        (None, (True, True), (True, True)),
        ("grpc,kafka", (True, True), (True, True)),
        ("kafka", (True, True), (False, True)),
        ("grpc", (True, False), (True, False)),
    ],
)
async def test_listeners_speak_what_the_setting_says_and_brokers_always_reach_each_other(
    cluster, setting, of_brokers, of_clients
):
    said = {} if setting is None else {"listener_protocols": setting}
    broker = await cluster.start_broker(1, **LISTENERS, **said)
    for address, expected in (
        (broker._listening.address, of_brokers),
        (broker._listening.endpoints["CLIENTS"], of_clients),
    ):
        assert (await speaks_grpc(cluster, address), await speaks_kafka(address)) == expected, address


async def test_the_address_of_a_broker_with_one_listener_serves_both(cluster):
    broker = await cluster.start_broker(1)
    async with connected(broker.address) as kafka:
        answered = await kafka.ask(ApiVersionsRequest("test", "1"), 3)
        assert answered.error_code == 0
        assert {api.api_key for api in answered.api_keys} >= {18}
        assert [feature.name for feature in answered.finalized_features] == ["metadata.version"]
    assert broker.context.traffic.requests["ApiVersions"].count == 1


@pytest.mark.parametrize("value", ["", "http", "grpc,", "grpc,kafka,grpc", "kafka;grpc"])
def test_other_protocols_are_refused(value):
    with pytest.raises(ReplogError, match=r"listener\.protocols"):
        BrokerConfig.parse({"node.id": "1", "log.dirs": "/tmp/a", "listener.protocols": value}, "a test")
