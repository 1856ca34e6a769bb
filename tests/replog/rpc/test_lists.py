"""What a request lists is counted before it is parsed, as protobuf would count it, and no further than it may be."""

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from replog.errors import ErrorCode, ReplogError
from replog.rpc.lists import OTHER_FIELDS, Lists
from replog.rpc.v1 import common_pb2, inspection_pb2, log_pb2
from replog.rpc.v1 import controller_pb2 as pb

MOST, WITHIN = 3, 5
ISRS = Lists(pb.AlterPartitionRequest.DESCRIPTOR, MOST, WITHIN)
PIECES = {  # of an AlterPartitionRequest: as protobuf writes it, and as it reads it, too
    "partition": b"\x1a\x00",
    "partition, its tag in two bytes": b"\x9a\x00\x00",
    "partition, its tag in five bytes": b"\x9a\x80\x80\x80\x00\x00",
    "partition, its length in three bytes": b"\x1a\x80\x80\x00",
    "partition with two members": b"\x1a\x04\x32\x00\x32\x00",
    "partition with a member, its tag in two bytes": b"\x1a\x03\xb2\x00\x00",
    "broker id": b"\x08\x1a",
    "incarnation id": b"\x22\x02\x1a\x32",
    "partition that is a number": b"\x18\x1a",
    "unknown": b"\xfa\x01\x01\x32",
    "eight bytes": b"\x79\x1a\x1a\x1a\x1a\x1a\x1a\x1a\x1a",
    "four bytes": b"\x7d\x32\x32\x32\x32",
}


def is_refused(lists: Lists, data: bytes) -> bool:
    try:
        lists.check(data)
    except ReplogError:
        return True
    return False


@pytest.mark.parametrize(
    ("many", "name"),
    [
        (lambda n: log_pb2.FetchRequest(partitions=[log_pb2.FetchPartition()] * n), "partitions"),
        (lambda n: log_pb2.GetMetadataRequest(topics=["t"] * n), "topics"),
        (lambda n: pb.AlterTopicConfigsRequest(set={str(k): "" for k in range(n)}), "set"),
        (lambda n: inspection_pb2.ReadBatchHeadersRequest(positions=[1 << 60] * n), "positions"),
    ],
    ids=["messages", "texts", "a map", "numbers"],
)
def test_a_list_has_so_many_entries_and_no_more(many, name):
    lists = Lists(many(0).DESCRIPTOR, 100)
    lists.check(many(100).SerializeToString())
    with pytest.raises(ReplogError, match=rf"of \d+ bytes, with more than 100 {name}; name less") as refused:
        lists.check(many(101).SerializeToString())
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_entries_that_lie_far_apart_are_counted_together():
    far = [log_pb2.FetchPartition(topic="a" * 100_000)] * (MOST + 1)
    lists = Lists(log_pb2.FetchRequest.DESCRIPTOR, MOST)
    assert not is_refused(lists, log_pb2.FetchRequest(partitions=far[1:]).SerializeToString())
    assert is_refused(lists, log_pb2.FetchRequest(partitions=far).SerializeToString())


def test_lists_of_one_message_are_counted_apart():
    forgotten = [common_pb2.ForgottenPartition()] * 100
    request = log_pb2.FetchRequest(partitions=[log_pb2.FetchPartition()] * 100, forgotten=forgotten)
    Lists(request.DESCRIPTOR, 100).check(request.SerializeToString())


def test_what_entries_list_is_counted_over_all_of_them():
    reassignments = Lists(pb.AlterPartitionReassignmentsRequest.DESCRIPTOR, MOST, WITHIN)
    target = pb.ReplicaAssignment(broker_ids=[1000] * 3)
    items = [pb.ReassignablePartition(target=target)] * 2
    with pytest.raises(ReplogError, match="more than 5 broker_ids"):
        reassignments.check(pb.AlterPartitionReassignmentsRequest(partitions=items).SerializeToString())


def test_behind_an_entry_too_many_nothing_is_looked_at():
    """The rest, which is no message, would be told of otherwise."""
    no_message = b"\xff" * 100
    assert is_refused(ISRS, PIECES["partition"] * (MOST + 1) + no_message)
    with pytest.raises(DecodeError):
        ISRS.check(PIECES["partition"] * MOST + PIECES["broker id"] + no_message)


def test_other_fields_are_bounded_too_since_each_is_passed_over():
    over = PIECES["partition"] * 2 + b"\x1a\x02\x1a\x1a"  # more bytes like an entry's first than there may be entries
    assert not is_refused(ISRS, PIECES["broker id"] * OTHER_FIELDS + over)
    for data in (PIECES["broker id"] * (OTHER_FIELDS + 1) + over, over + PIECES["broker id"] * (OTHER_FIELDS + 1)):
        with pytest.raises(ReplogError, match=f"more than {OTHER_FIELDS} other fields"):
            ISRS.check(data)


def too_many(request: Message) -> bool:
    items = request.partitions  # type: ignore[attr-defined]
    return len(items) > MOST or sum(len(item.new_isr) for item in items) > WITHIN


@given(st.lists(st.one_of(st.sampled_from(sorted(PIECES.values())), st.binary(max_size=6)), max_size=12).map(b"".join))
def test_what_protobuf_would_make_too_much_of_is_refused_however_it_is_written(data):
    try:
        request = pb.AlterPartitionRequest.FromString(data)
    except DecodeError:
        return
    if too_many(request):
        assert is_refused(ISRS, data)


@given(st.lists(st.tuples(st.text(max_size=3), st.lists(st.integers(0, 1 << 40), max_size=4)), max_size=5))
def test_what_protobuf_writes_is_refused_if_it_is_too_much_and_only_then(items):
    request = pb.AlterPartitionRequest(
        broker_id=0x1A,
        incarnation_id=b"\x1a\x32" * 8,
        partitions=[
            pb.AlterPartitionItem(topic=topic, new_isr=[pb.IsrMember(broker_id=0x1A, broker_epoch=e) for e in epochs])
            for topic, epochs in items
        ],
    )
    assert is_refused(ISRS, request.SerializeToString()) == too_many(request)
