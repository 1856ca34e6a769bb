"""What a broker lets clients do with topics, by the ACLs that it hears of, while they run."""

import asyncio
import random

import pytest
from structlog.testing import capture_logs

from replog.client import Consumer, Producer
from replog.common.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from replog.controller import acls
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.limits import ACCESS
from replog.rpc.peer import On
from replog.rpc.v1 import inspection_pb2, log_pb2
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import (
    CALL_S,
    TP,
    InProcessCluster,
    batch,
    eventually,
    fetch_request,
    produce_request,
)

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NOWHERE = TopicPartition("nowhere", 0)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Guarded:
    """One broker with an authorizer, and topic t."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self.cluster = cluster

    async def allow(self, *operations: Operation, topic: str = "t", permission: Permission = Permission.ALLOW) -> None:
        """Until the broker knows it."""
        state = self.cluster.controller.state
        made = [
            Acl(ResourceType.TOPIC, topic, PatternType.LITERAL, "User:ANONYMOUS", "127.0.0.1", operation, permission)
            for operation in operations
        ]
        await self.cluster.controller.decide(lambda _: acls.create_acls(state.image, made, random.Random()))
        await self.known()

    async def forbid(self) -> None:
        """No ACL is left."""
        state = self.cluster.controller.state
        await self.cluster.controller.decide(lambda _: acls.delete_acls(state.image, [AclFilter()]))
        await self.known()

    async def known(self) -> None:
        image = self.cluster.controller.state.image
        await eventually(lambda: self.cluster.brokers[1].manager.context.image.version == image.version)

    async def ask(self, method, request):
        return await self.cluster.any_channel().call(method, request, CALL_S)


@pytest.fixture
async def guarded(cluster: InProcessCluster) -> Guarded:
    await cluster.begin(1, brokers={"authorizer_class_name": STANDARD}, min_insync_replicas="1")
    return Guarded(cluster)


def named(kind, tp):
    return kind(topic=tp.topic, partition=tp.partition)


ROWS = {
    "Log/Produce": None,  # streams have tests of their own
    "Log/Fetch": None,
    "Inspection/DescribeReplicas": None,
    "Log/ProduceOnce": lambda tp: produce_request(tp, batch(b"x"), acks=1),
    "Log/FetchOnce": lambda tp: fetch_request(tp),
    "Log/ListOffsets": lambda tp: log_pb2.ListOffsetsRequest(partitions=[named(log_pb2.ListOffsetsPartition, tp)]),
    "Log/OffsetsForLeaderEpoch": lambda tp: log_pb2.OffsetsForLeaderEpochRequest(
        partitions=[named(log_pb2.OffsetForLeaderEpochPartition, tp)]
    ),
    "Log/DeleteRecords": lambda tp: log_pb2.DeleteRecordsRequest(
        partitions=[named(log_pb2.DeleteRecordsPartition, tp)], timeout_ms=10_000
    ),
    "Log/GetMetadata": lambda tp: log_pb2.GetMetadataRequest(topics=[tp.topic]),
}


def row_of(answer):
    head = getattr(answer, "head", answer)
    rows = head.answers[0].partitions if hasattr(head, "answers") else getattr(head, "topics", None) or head.partitions
    (row,) = rows
    return row


def code_of(answer):
    return ErrorCode(row_of(answer).error_code)


def method_of(row):
    return next(each for each in methods.Log.values() if each.path.endswith(row))


async def test_every_method_that_is_refused_row_by_row_is_and_a_topic_that_there_is_not_looks_the_same(guarded):
    assert set(ROWS) == {row for row, access in ACCESS.items() if access.on is On.ROWS}
    for row, request in ROWS.items():
        if request is not None:
            method = method_of(row)
            refused = row_of(await guarded.ask(method, request(TP)))
            assert ErrorCode(refused.error_code) is DENIED, row
            if row != "Log/GetMetadata":  # its rows are of topics, and have no text
                assert "topic t: no ACL allows it" in refused.error_message, row
            assert code_of(await guarded.ask(method, request(NOWHERE))) is DENIED, row
            await guarded.allow(ACCESS[row].operation)
            assert code_of(await guarded.ask(method, request(TP))) is ErrorCode.NONE, row
            assert code_of(await guarded.ask(method, request(NOWHERE))) is DENIED, row
            await guarded.forbid()


async def test_nothing_is_appended_of_what_is_refused_and_the_rest_of_the_request_is(guarded):
    await guarded.cluster.create_topic("u", 1, 1, min_insync_replicas="1")
    await guarded.allow(Operation.WRITE, topic="u")
    refused, taken = batch(b"for t"), batch(b"for u")
    request = produce_request(TP, refused + taken, acks=1)
    request.head.partitions[0].records_size = len(refused)
    request.head.partitions.add(topic="u", partition=0, records_size=len(taken))
    answer = await guarded.ask(methods.Log["produce_once"], request)
    assert [ErrorCode(row.error_code) for row in answer.answers[0].partitions] == [DENIED, ErrorCode.NONE]
    assert guarded.cluster.log(1, TP).log_end_offset == 0
    assert guarded.cluster.log(1, TopicPartition("u", 0)).log_end_offset == 1


async def test_an_acl_that_is_taken_away_ends_what_a_stream_of_produces_may_do(guarded):
    await guarded.allow(Operation.WRITE)
    stream = guarded.cluster.to_leader(TP).open(methods.Log["produce"])

    async def produced() -> ErrorCode:
        await stream.send(produce_request(TP, batch(b"x"), acks=1))
        return code_of(await stream.receive(CALL_S))

    assert [await produced() for _ in range(3)] == [ErrorCode.NONE] * 3
    await guarded.forbid()
    assert await produced() is DENIED
    await guarded.allow(Operation.WRITE)
    assert await produced() is ErrorCode.NONE
    await guarded.allow(Operation.ALL, permission=Permission.DENY)
    assert await produced() is DENIED
    stream.cancel()
    assert guarded.cluster.log(1, TP).log_end_offset == 4


async def test_an_acl_that_is_taken_away_ends_a_session_that_names_its_partitions_no_more(guarded):
    await guarded.allow(Operation.READ, Operation.WRITE)
    stream = guarded.cluster.to_leader(TP).open(methods.Log["fetch"])
    await stream.send(fetch_request(TP, max_wait_ms=100))
    assert code_of(await stream.receive(CALL_S)) is ErrorCode.NONE
    await stream.send(log_pb2.FetchRequest(max_bytes=1 << 20, min_bytes=1, max_wait_ms=30_000, goes_on=True))
    await asyncio.sleep(0)
    await guarded.forbid()
    await guarded.allow(Operation.WRITE)
    await guarded.cluster.produce(TP, batch(b"secret"), acks=1)
    answer = await stream.receive(CALL_S)
    assert (code_of(answer), b"".join(map(bytes, answer.records))) == (DENIED, b"")
    stream.cancel()


async def test_a_list_leaves_out_what_may_not_be_described_and_tells_nobody_of_a_denial(guarded):
    await guarded.cluster.create_topic("u", 1, 1)
    every = log_pb2.GetMetadataRequest()
    replicas = inspection_pb2.DescribeReplicasRequest()
    with capture_logs() as lines:
        assert not (await guarded.ask(methods.Log["get_metadata"], every)).topics
        assert not (await guarded.ask(methods.Inspection["describe_replicas"], replicas)).replicas
        await guarded.allow(Operation.READ, topic="u")  # which implies to describe
        assert [t.topic for t in (await guarded.ask(methods.Log["get_metadata"], every)).topics] == ["u"]
        described = await guarded.ask(methods.Inspection["describe_replicas"], replicas)
        assert [replica.topic for replica in described.replicas] == ["u"]
    assert not [line for line in lines if line["event"] == "denied"]
    with pytest.raises(ReplogError) as refused, capture_logs() as lines:
        await guarded.ask(methods.Inspection["describe_replicas"], inspection_pb2.DescribeReplicasRequest(topic="t"))
    assert refused.value.code is DENIED
    assert [line["resource"] for line in lines if line["event"] == "denied"] == ["TOPIC:t"]


async def test_clients_hear_of_it_at_once_and_by_name(guarded):
    address = guarded.cluster.brokers[1].address
    async with asyncio.timeout(CALL_S), Producer(address) as producer, Consumer(address) as consumer:
        with pytest.raises(ReplogError) as refused:
            await (await producer.send("t", b"x"))
        assert refused.value.code is DENIED
        await guarded.allow(Operation.DESCRIBE)
        with pytest.raises(ReplogError) as refused:
            await (await producer.send("t", b"x"))
        assert refused.value.code in (DENIED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        consumer.assign([TP])
        with pytest.raises(ReplogError) as refused:
            while True:
                await consumer.fetch()
        assert refused.value.code is DENIED
        assert "an administrator can allow it: replog acl add" in refused.value.message
