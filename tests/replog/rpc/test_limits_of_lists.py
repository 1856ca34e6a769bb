"""Every list that a request may have is bounded, and what is too much is refused before it is parsed."""

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.limits import LIMITS, MAX_OFFLINE_PER_REQUEST, MAX_REPLICAS_PER_REQUEST
from replog.rpc.lists import OTHER_FIELDS
from replog.rpc.v1 import controller_pb2 as pb
from replog.topic import MAX_CLUSTER_PARTITIONS, MAX_PARTITION, MAX_TOPIC_NAME_LENGTH
from tests.replog.rpc.test_limits import SERVICES

METHODS = {
    method.path.rpartition(".")[2]: method
    for service in (methods.Log, methods.Replica, methods.Inspection, methods.LogDirs, methods.Controller)
    for method in service.values()
}
DESCRIBED: dict[str, MethodDescriptor] = {
    f"{service.name}/{method.name}": method for service in SERVICES for method in service.methods
}


def lists_of(message: Descriptor) -> Iterator[FieldDescriptor]:
    return (field for field in message.fields if field.is_repeated)


def has_lists(message: Descriptor) -> bool:
    return any(field.is_repeated or (field.message_type and has_lists(field.message_type)) for field in message.fields)


def test_every_method_that_takes_lists_says_how_much_of_them_and_no_other():
    lists = {name: list(lists_of(method.input_type)) for name, method in DESCRIBED.items()}
    assert {name for name, limit in LIMITS.items() if limit.listed} == {name for name in lists if lists[name]}
    within = {name for name in lists for field in lists[name] if field.message_type and has_lists(field.message_type)}
    assert {name for name, limit in LIMITS.items() if limit.replicas} == within


def test_a_request_that_lists_too_much_is_refused_before_it_is_parsed():
    """What follows the entry that is one too many is no message: nothing has looked at it."""
    for name, method in DESCRIBED.items():
        for field in lists_of(method.input_type):
            most, what, more = LIMITS[name].listed, field.name, 1
            if name.startswith("Log/Produce"):  # whose other fields are counted with the entries
                what, more = "entries", OTHER_FIELDS + 1
            is_number = field.cpp_type == FieldDescriptor.CPPTYPE_INT64
            entry = bytes([field.number << 3 | (0 if is_number else 2), 0])
            METHODS[name].decode_request(entry * most)
            with pytest.raises(ReplogError, match=f"names too much.+more than {most} {what}") as refused:
                METHODS[name].decode_request(entry * (most + more) + b"\xff" * 50)
            assert refused.value.code is ErrorCode.INVALID_REQUEST


MEMBERS = [pb.IsrMember()] * (MAX_REPLICAS_PER_REQUEST // 2)
IDS = pb.ReplicaAssignment(broker_ids=[1] * (MAX_REPLICAS_PER_REQUEST // 2))
ID = pb.ReplicaAssignment(broker_ids=[1])


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (
            pb.AlterPartitionRequest(partitions=[pb.AlterPartitionItem(new_isr=MEMBERS)] * 2),
            pb.AlterPartitionRequest(partitions=[pb.AlterPartitionItem(new_isr=[pb.IsrMember()])]),
        ),
        (
            pb.AlterPartitionReassignmentsRequest(partitions=[pb.ReassignablePartition(target=IDS)] * 2),
            pb.AlterPartitionReassignmentsRequest(partitions=[pb.ReassignablePartition(target=ID)]),
        ),
        (pb.CreateTopicRequest(assignment=[IDS] * 2), pb.CreateTopicRequest(assignment=[ID])),
        (pb.CreatePartitionsRequest(assignment=[IDS] * 2), pb.CreatePartitionsRequest(assignment=[ID])),
    ],
    ids=lambda request: request.DESCRIPTOR.name,
)
def test_replicas_are_counted_over_all_partitions_of_a_request(most: Message, more: Message):
    method = METHODS[f"Controller/{most.DESCRIPTOR.name.removesuffix('Request')}"]
    method.decode_request(most.SerializeToString())
    with pytest.raises(ReplogError, match=f"more than {MAX_REPLICAS_PER_REQUEST}") as refused:
        method.decode_request(most.SerializeToString() + more.SerializeToString())
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_broker_can_lack_every_partition_that_a_cluster_may_have():
    missing = [pb.MissingReplicas(topic_id=bytes(16), partitions=[MAX_PARTITION])] * MAX_CLUSTER_PARTITIONS
    register = methods.Controller["register_broker"]
    request = pb.RegisterBrokerRequest(incarnation_id=bytes(16), missing=missing)
    assert len(register.decode_request(register.encode_request(request)).missing) == MAX_CLUSTER_PARTITIONS


def test_a_broker_whose_disk_failed_can_tell_of_it_whatever_its_topics_are_called():
    replica = pb.OfflineReplica(topic="t" * MAX_TOPIC_NAME_LENGTH, topic_id=bytes(16), partition=MAX_PARTITION)
    request = pb.HeartbeatRequest(incarnation_id=bytes(16), offline=[replica] * MAX_OFFLINE_PER_REQUEST)
    heartbeat = methods.Controller["heartbeat"]
    assert len(heartbeat.decode_request(heartbeat.encode_request(request)).offline) == MAX_OFFLINE_PER_REQUEST
