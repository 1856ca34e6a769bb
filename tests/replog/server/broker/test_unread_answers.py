"""A client that asks and does not listen: what it leaves unread is bounded."""

import asyncio

import pytest

from replog.rpc import methods
from replog.rpc.v1 import log_pb2, replica_pb2
from tests.replog.server.broker.conftest import TP, batch, eventually, fetch_request

REQUESTS = 300


def consumer_fetch(number: int, _: bytes) -> log_pb2.FetchRequest:
    return fetch_request(TP, correlation_id=number)


def replica_fetch(_: int, topic_id: bytes) -> replica_pb2.ReplicaFetchRequest:
    partition = replica_pb2.ReplicaFetchPartition(
        topic="t", topic_id=topic_id, partition=0, last_fetched_epoch=-1, partition_max_bytes=1 << 20
    )
    return replica_pb2.ReplicaFetchRequest(
        replica_id=2, broker_epoch=1 << 40, max_bytes=1 << 20, partitions=[partition]
    )


@pytest.mark.parametrize(
    ("method", "request_of", "bound"),
    [
        pytest.param(methods.Log["fetch"], consumer_fetch, 1, id="consumer"),
        pytest.param(methods.Replica["fetch"], replica_fetch, 8, id="follower"),
    ],
)
async def test_a_client_that_does_not_read_its_answers_is_not_read_from_for_long(cluster, method, request_of, bound):
    await cluster.start_brokers(1, 2)
    async with cluster.admin() as admin:
        await admin.create_topic("t", assignment=[(1, 2)])
    await cluster.hosted(TP)
    await cluster.produce(TP, batch(b"x" * 900_000))
    topic_id = cluster.controller.state.image.topics["t"].topic_id
    stream = cluster.to_leader(TP).open(method)

    async def ask() -> None:
        for number in range(REQUESTS):
            await stream.send(request_of(number, topic_id))

    asking = asyncio.create_task(ask())
    most = 0
    for _ in range(8):
        await asyncio.sleep(0.1)
        read = [broker.manager.sessions.answers.used // 900_000 for broker in cluster.brokers.values()]
        most = max(most, *read)
    asking.cancel()
    stream.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert most <= bound, f"{most} answers of 900 KB wait for a client that does not read"
    for broker in cluster.brokers.values():
        await eventually(lambda held=broker.manager.sessions.answers: held.used == 0)  # type: ignore[misc]
