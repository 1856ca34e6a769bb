"""Answers fit what a client of gRPC takes by default, 4 MiB, unless it asks for more; what a client leaves unread that
asks and does not listen is bounded."""

import asyncio

import pytest

from replog.errors import ErrorCode
from replog.rpc import methods
from replog.rpc.limits import DEFAULT_ANSWER_BYTES, MIB
from replog.rpc.v1 import inspection_pb2, log_dirs_pb2, log_pb2, replica_pb2
from tests.replog.rpc.handlers import error_of
from tests.replog.server.broker.conftest import CALL_S, TP, InProcessCluster, batch, eventually, fetch_request

LARGE = {"fetch_max_bytes": 14 * MIB}  # a broker whose answers may be larger


async def fetch_once(cluster: InProcessCluster, offset: int, **fields: int) -> int:
    """The size of the answer."""
    place = log_pb2.FetchPartition(topic="t", fetch_offset=offset)
    request = log_pb2.FetchRequest(partitions=[place], **fields)
    answer = await cluster.any_channel().call(methods.Log["fetch_once"], request, CALL_S)
    return len(methods.Log["fetch_once"].encode_response(answer))


async def test_a_fetch_that_does_not_say_how_much_gets_what_any_client_takes(cluster):
    await cluster.begin(1, brokers=LARGE, max_message_bytes=str(14 * MIB))
    for _ in range(6):
        await cluster.produce(TP, batch(bytes(900_000)))
    assert 2 * MIB < await fetch_once(cluster, 0) < DEFAULT_ANSWER_BYTES
    assert MIB < await fetch_once(cluster, 0, max_bytes=2 * MIB) < 2 * MIB + 100


async def test_a_batch_that_is_larger_is_refused_with_the_remedy_and_comes_to_whoever_takes_more(cluster):
    await cluster.begin(1, brokers=LARGE, max_message_bytes=str(14 * MIB))
    await cluster.produce(TP, batch(bytes(5 * MIB)))
    error = await error_of(fetch_once(cluster, 0))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert f"at most {DEFAULT_ANSWER_BYTES} were asked for" in error.message
    assert "say so in max_bytes" in error.message
    assert await fetch_once(cluster, 0, max_bytes=1) > 5 * MIB


async def test_a_description_of_more_than_its_client_takes_is_refused(cluster):
    await cluster.begin(1)
    for channel, method, request in (
        (cluster.any_channel(), methods.Log["get_metadata"], log_pb2.GetMetadataRequest()),
        (cluster.any_channel(), methods.Inspection["describe_replicas"], inspection_pb2.DescribeReplicasRequest()),
        (cluster.any_channel(), methods.LogDirs["describe_log_dirs"], log_dirs_pb2.DescribeLogDirsRequest()),
    ):
        answer = await channel.call(method, request, CALL_S)
        request.max_bytes = answer.ByteSize()
        await channel.call(method, request, CALL_S)
        request.max_bytes -= 20  # some numbers in it change
        assert "name less in one request" in (await error_of(channel.call(method, request, CALL_S))).message


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
