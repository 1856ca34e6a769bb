"""A broker with listeners of its own for clients, replication and audits (D47)."""

import pytest

from replog.client import Admin, Producer
from replog.errors import ReplogError
from replog.rpc import methods
from replog.rpc.v1 import inspection_pb2, log_pb2, presence_pb2
from tests.replog.server.broker.conftest import TP, InProcessCluster, eventually

SEVERAL = {
    "listeners": "CLIENT://127.0.0.1:0,REPLICATION://127.0.0.1:0,AUDIT://127.0.0.1:0",
    "inter_broker_listener_name": "REPLICATION",
    "inspection_listener_name": "AUDIT",
}


async def brokers_at(cluster: InProcessCluster, address: str) -> dict[int, str]:
    """Where the broker that is asked there says that brokers are."""
    request = log_pb2.GetMetadataRequest(without_topics=True)
    answer = await cluster.channel(address).call(methods.Log["get_metadata"], request, 10)
    return {broker.broker_id: broker.address for broker in answer.brokers}


def at(cluster: InProcessCluster, broker_id: int, listener: str) -> str:
    return cluster.brokers[broker_id]._listening.bound[listener]


async def test_clients_are_told_the_addresses_of_the_listener_that_they_use(cluster):
    await cluster.start_brokers(1, 2, **SEVERAL)
    for listener in ("CLIENT", "REPLICATION", "AUDIT"):
        known = {number: at(cluster, number, listener) for number in (1, 2)}
        assert await brokers_at(cluster, known[1]) == known
        assert len(set(known.values())) == 2
    async with Admin(at(cluster, 1, "CLIENT")) as admin:
        await admin.create_topic("t", assignment=[(1, 2)])
    async with Producer(at(cluster, 2, "CLIENT")) as producer:
        assert (await (await producer.send("t", b"x"))).offset == 0
    await eventually(lambda: cluster.log(2, TP).log_end_offset == 1)
    assert list(cluster.brokers[2]._fetchers._fetchers) == [at(cluster, 1, "REPLICATION")]


@pytest.mark.parametrize("listener", ["CLIENT", "AUDIT"])
async def test_replication_is_served_between_brokers_alone(cluster, listener):
    await cluster.start_broker(1, **SEVERAL)
    for method, request in ((methods.Presence["are_you"], presence_pb2.AreYouRequest()),):
        with pytest.raises(ReplogError, match="UNIMPLEMENTED"):
            await cluster.channel(at(cluster, 1, listener)).call(method, request, 10)
    stream = cluster.channel(at(cluster, 1, listener)).open(methods.Replica["fetch"])
    with pytest.raises(ReplogError, match="UNIMPLEMENTED"):
        await stream.receive(10)


async def test_audits_are_served_on_the_listener_that_is_named_for_them(cluster):
    await cluster.start_broker(1, **SEVERAL)
    request, method = inspection_pb2.DescribeReplicasRequest(), methods.Inspection["describe_replicas"]
    await cluster.channel(at(cluster, 1, "AUDIT")).call(method, request, 10)
    for listener in ("CLIENT", "REPLICATION"):
        with pytest.raises(ReplogError, match="UNIMPLEMENTED"):
            await cluster.channel(at(cluster, 1, listener)).call(method, request, 10)


async def test_a_broker_with_one_listener_has_it_for_all_and_one_without_it_is_left_out(cluster):
    """So brokers can be given more listeners one by one."""
    await cluster.start_broker(1, **SEVERAL)
    await cluster.start_broker(2)
    await cluster.start_broker(3, listeners="PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0")
    assert await brokers_at(cluster, at(cluster, 1, "CLIENT")) == {
        1: at(cluster, 1, "CLIENT"),
        2: cluster.brokers[2].address,
    }
    between = {1: at(cluster, 1, "REPLICATION"), 2: cluster.brokers[2].address, 3: at(cluster, 3, "PLAINTEXT")}
    assert await brokers_at(cluster, cluster.brokers[2].address) == between
