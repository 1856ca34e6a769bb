"""A client without any permission, which calls everything while brokers and controller fail."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from replog.client.records import encode_batch
from replog.common.acl import Acl, Operation, PatternType, Permission, ResourceType
from replog.errors import DENIALS, ErrorCode, ReplogError
from replog.metadata.records import acl_to_binding
from replog.rpc.codec import WithRecords
from replog.rpc.methods import Controller, Inspection, Log, LogDirs, Method, Replica
from replog.rpc.v1 import controller_pb2, inspection_pb2, log_dirs_pb2, log_pb2, replica_pb2
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.history import History
from replog.simulator.invariants import Violation
from replog.topic import TopicPartition

_MAY = {
    ("User:producer", "User:transactor"): (Operation.WRITE, Operation.DESCRIBE),
    ("User:consumer", "User:poller", "User:world"): (Operation.READ, Operation.DESCRIBE),
}
ACLS = [
    Acl(ResourceType.TOPIC, "t", PatternType.PREFIXED, principal, "*", operation, Permission.ALLOW)
    for principals, operations in _MAY.items()
    for principal in principals
    for operation in operations
]
"""Allows the other clients what they need, and no more."""

CALL_S = 2.0


async def ask_everything(
    _name: str,
    rng: Random,
    kernel: Kernel,
    history: History,
    brokers: Sequence[str],
    controller: str,
    partitions: Sequence[TopicPartition],
    stop: asyncio.Event,
) -> None:
    """Make one random call after the other until the stop. Raises Violation if one is granted."""
    transport = kernel.transport()
    channels = {address: transport.connect(address) for address in (*brokers, controller)}
    while not stop.is_set():
        to_controller = rng.random() < 0.3
        address = controller if to_controller else rng.choice(brokers)
        tp = rng.choice(partitions)
        method, request = rng.choice(_of_controller(tp) if to_controller else _of_broker(tp))
        try:
            if method is Replica["fetch"]:
                stream = channels[address].open(method)
                await stream.send(request)
                answer = await stream.receive(CALL_S)
                stream.cancel()
            elif method.server_streaming:
                answer = await anext(channels[address].watch(method, request))
            else:
                answer = await channels[address].call(method, request, CALL_S)
        except ReplogError as error:  # a refusal, or nobody was reached
            history.denials += error.code in DENIALS
        else:
            _check(method, getattr(answer, "head", answer), tp)
            history.denials += 1
        await asyncio.sleep(rng.uniform(0.0, 0.4))
    for channel in channels.values():
        await channel.close()


def _check(method: Method, answer: Any, tp: TopicPartition) -> None:
    """Raise Violation unless an answer of a call that did not fail refuses every row."""
    rows: list[Any]
    match answer:
        case log_pb2.ProduceResponse(answers=answers):
            rows = [row for each in answers for row in each.partitions]
        case log_pb2.GetMetadataResponse(topics=topics):
            rows = list(topics)
        case inspection_pb2.DescribeReplicasResponse(replicas=replicas) if not replicas:
            return
        case _:
            rows = list(getattr(answer, "partitions", [])) or [None]
    if not rows or not all(row is not None and ErrorCode(row.error_code) in DENIALS for row in rows):
        raise Violation("acl", f"a stranger got an answer of {method.path} about {tp}: {str(answer)[:500]}")


def _of_controller(tp: TopicPartition) -> list[tuple[Method, Any]]:
    mine = ACLS[0]._replace(principal="User:stranger", operation=Operation.ALL)
    return [
        (Controller["create_acls"], controller_pb2.CreateAclsRequest(acls=[acl_to_binding(mine)])),
        (Controller["delete_topic"], controller_pb2.DeleteTopicRequest(topic=tp.topic)),
        (
            Controller["alter_topic_configs"],
            controller_pb2.AlterTopicConfigsRequest(topic=tp.topic, set={"retention.ms": "1"}),
        ),
        (Controller["create_topic"], controller_pb2.CreateTopicRequest(topic="t-strange", partitions=1)),
        (
            Controller["alter_partition_reassignments"],
            controller_pb2.AlterPartitionReassignmentsRequest(
                partitions=[controller_pb2.ReassignablePartition(topic=tp.topic, partition=tp.partition)]
            ),
        ),
        (Controller["watch_metadata"], controller_pb2.WatchMetadataRequest()),
    ]


def _of_broker(tp: TopicPartition) -> list[tuple[Method, Any]]:
    topic, partition = tp
    batch = bytes(encode_batch([(1000, None, b"of a stranger", ())]))
    produced = log_pb2.ProducePartition(topic=topic, partition=partition, records_size=len(batch))
    fetched = log_pb2.FetchPartition(topic=topic, partition=partition)
    deleted = log_pb2.DeleteRecordsPartition(topic=topic, partition=partition, offset=-1)
    looked_up = log_pb2.ListOffsetsPartition(topic=topic, partition=partition, timestamp=-1)
    copied = replica_pb2.ReplicaFetchPartition(topic=topic, partition=partition)
    return [
        (
            Log["produce_once"],
            WithRecords(log_pb2.ProduceRequest(acks=1, timeout_ms=500, partitions=[produced]), (batch,)),
        ),
        (Log["fetch_once"], log_pb2.FetchRequest(max_bytes=1000, partitions=[fetched])),
        (Log["delete_records"], log_pb2.DeleteRecordsRequest(timeout_ms=100, partitions=[deleted])),
        (Log["list_offsets"], log_pb2.ListOffsetsRequest(partitions=[looked_up])),
        (Log["get_metadata"], log_pb2.GetMetadataRequest(topics=[topic])),
        (Log["init_producer_id"], log_pb2.InitProducerIdRequest()),
        (Replica["fetch"], replica_pb2.ReplicaFetchRequest(replica_id=1, max_bytes=1000, partitions=[copied])),
        (Inspection["describe_replicas"], inspection_pb2.DescribeReplicasRequest()),
        (Inspection["read_file"], inspection_pb2.ReadFileRequest(topic=topic, partition=partition)),
        (LogDirs["describe_log_dirs"], log_dirs_pb2.DescribeLogDirsRequest()),
    ]
