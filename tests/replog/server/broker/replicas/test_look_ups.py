"""Offsets by time (FE-22), asked for by clients that mean no good: bounded like a produce."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from benchmarks.attackers import packed
from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import parse_header
from replog.log.timestamps import ClaimingBatch
from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from replog.server.broker.replicas import look_ups
from replog.server.broker.replicas.look_ups import LONG_RESTS, RESTS
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import CALL_S, InProcessCluster, batch

S = 60.0


async def ask(cluster: InProcessCluster, *topics: str) -> Sequence[log_pb2.ListOffsetsPartitionResult]:
    named = [log_pb2.ListOffsetsPartition(topic=topic, partition=0, timestamp=1001) for topic in topics]
    request = log_pb2.ListOffsetsRequest(partitions=named)
    response = await cluster.any_channel().call(methods.Log["list_offsets"], request, CALL_S)
    partitions: Sequence[log_pb2.ListOffsetsPartitionResult] = response.partitions
    return partitions


async def test_a_batch_is_looked_into_as_far_as_a_leader_looks_into_what_it_is_sent(cluster):
    """Sixteen times `max.message.bytes`; one that expands to more stands for its first record."""
    await cluster.start_broker(1)
    for topic, size, offset in (("small", 1_500_000, 1), ("large", 1_700_000, 0)):
        await cluster.create_topic(topic, replication_factor=1, max_message_bytes="100000")
        error, _, message = await cluster.produce(TopicPartition(topic, 0), packed(size))
        assert error is ErrorCode.NONE, message
        assert [(r.timestamp, r.offset) for r in await ask(cluster, topic)] == [(1001, offset)]


async def test_a_partition_is_named_once_in_a_request(cluster):
    await cluster.begin(1)
    await cluster.produce(TopicPartition("t", 0), batch(b"x"))
    with pytest.raises(ReplogError, match="names each partition once") as raised:
        await ask(cluster, "t", "t")
    assert raised.value.code is ErrorCode.INVALID_REQUEST


async def test_a_request_that_takes_too_long_is_told_so_partition_by_partition(cluster, monkeypatch):
    await cluster.start_broker(1)
    for topic in ("t", "u"):
        await cluster.create_topic(topic, replication_factor=1)
        await cluster.produce(TopicPartition(topic, 0), packed(100))
    with monkeypatch.context() as impatient:
        impatient.setattr("replog.server.broker.clients.log_service.LOOK_UP_S", 0.2)
        async with cluster.brokers[1]._look_ups.searching:  # for somebody else, and it takes long
            results = await ask(cluster, "t", "u")
    assert [result.error_code for result in results] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    for result in results:
        assert result.error_message.startswith(f"looking for time 1001 in {result.topic}-0: ")
        assert "name fewer partitions in one" in result.error_message
    assert [result.offset for result in await ask(cluster, "t", "u")] == [1, 1]


@pytest.mark.parametrize(("long_s", "rests"), [(S, RESTS), (0.0, LONG_RESTS)], ids=["short", "long"])
async def test_after_each_look_up_they_rest_for_longer_than_it_took(monkeypatch, long_s, rests):
    least_s, loop, ours = 0.05, asyncio.get_running_loop(), look_ups.LookUps()
    monkeypatch.setattr(look_ups, "LONG_S", long_s)
    monkeypatch.setattr(ClaimingBatch, "find", lambda _: time.sleep(least_s))
    data = packed(1)
    batch = ClaimingBatch(parse_header(data), data, timestamp=1001, start_offset=0, max_message_bytes=1 << 20)
    begun_s = loop.time()
    await ours.find(batch)
    rests_until_s, most_s = ours.rests_until_s, loop.time() - begun_s
    assert least_s * (1 + rests) <= rests_until_s - begun_s <= most_s * (1 + rests)
    await ours.find(batch)
    assert loop.time() > rests_until_s
