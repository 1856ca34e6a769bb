"""Messages with trailing records: same bytes as protobuf, parsed without copying the payload."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from replog.rpc.codec import RecordsDecoder, WithRecords, encode_with_records
from replog.rpc.v1 import log_pb2, replica_pb2

DECODE = RecordsDecoder(log_pb2.ProduceRequest)


def head(topic: str = "t", sizes: tuple[int, ...] = (3,)) -> log_pb2.ProduceRequest:
    partitions = [log_pb2.ProducePartition(topic=topic, partition=i, records_size=size) for i, size in enumerate(sizes)]
    return log_pb2.ProduceRequest(correlation_id=7, acks=-1, timeout_ms=30_000, partitions=partitions)


@given(st.text(max_size=20), st.lists(st.binary(max_size=300), max_size=5))
def test_what_we_encode_is_what_protobuf_encodes(topic, pieces):
    message = head(topic, tuple(map(len, pieces)))
    encoded = encode_with_records(WithRecords(message, pieces))
    whole = log_pb2.ProduceRequest()
    whole.CopyFrom(message)
    whole.records = b"".join(pieces)
    assert encoded == whole.SerializeToString(deterministic=True)


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_decoding_gives_back_head_and_payload(pieces):
    message = head(sizes=tuple(map(len, pieces)))
    decoded = DECODE(encode_with_records(WithRecords(message, pieces)))
    assert decoded.head == message
    assert b"".join(decoded.records) == b"".join(pieces)


def test_the_payload_is_a_view_of_the_message_not_a_copy():
    data = encode_with_records(WithRecords(head(), (b"x" * 100_000,)))
    decoded = DECODE(data)
    assert isinstance(decoded.records[0], memoryview)
    assert decoded.records[0].obj is data


def test_records_before_other_fields_are_still_read():
    """Legal protobuf, if unusual: another writer may put the field first."""
    message = head()
    data = encode_with_records(WithRecords(log_pb2.ProduceRequest(), (b"abc",))) + message.SerializeToString()
    decoded = DECODE(data)
    assert b"".join(decoded.records) == b"abc"
    assert decoded.head == message


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused_as_protobuf(data):
    try:
        DECODE(data)
    except DecodeError:
        pass


@pytest.mark.parametrize("data", [b"\xff", b"\x08", b"\x0b\x00", b"\x08" + b"\xff" * 12, b"\x7a\x05ab"])
def test_malformed_messages_are_refused(data):
    with pytest.raises(DecodeError):
        DECODE(data)


def test_every_message_with_records_keeps_them_in_field_15_the_last():
    for module in (log_pb2, replica_pb2):
        for name, descriptor in module.DESCRIPTOR.message_types_by_name.items():
            if "records" in descriptor.fields_by_name:
                numbers = [field.number for field in descriptor.fields]
                assert descriptor.fields_by_name["records"].number == max(numbers) == 15, name
