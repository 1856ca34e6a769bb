"""Messages to bytes and back, in every version; what hostile bytes may cost."""

import importlib
import inspect
import pkgutil
import time
import tracemalloc
from random import Random

import aiokafka.protocol
import pytest
from aiokafka.protocol.struct import Struct as Foreign

from replog.kafka.codec import decode_request, decode_response, encode_request, encode_response
from replog.kafka.errors import BadFrame
from replog.kafka.messages import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
    ProduceRequest,
    ProduceRequestPartitionData,
    ProduceRequestTopicData,
)
from replog.kafka.schema import Struct, read_schema
from replog.kafka.versions import APIS, Api
from tests.replog.kafka.values import REQUEST, RESPONSE, message, plain

ENCODE, DECODE = (encode_request, encode_response), (decode_request, decode_response)
MIB = 1 << 20


def whole(pieces):
    return memoryview(b"".join(pieces))


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_version_comes_back_as_it_was(api: Api):
    """With bytes behind it, which nobody minds, as librdkafka sends them; and cut short, which is refused."""
    chance = Random(api.key)
    for version in range(api.oldest, api.newest + 1):
        for side in (REQUEST, RESPONSE):
            for number in range(12):
                sent = message(api, version, side, chance, most=130 if number == 5 else 3)
                data = whole(ENCODE[side](api.key, version, sent))
                got = DECODE[side](api.key, version, memoryview(bytes(data) + b"xyz"))
                assert plain(got) == plain(sent), version
                assert whole(ENCODE[side](api.key, version, got)) == data, version
                for cut in {chance.randrange(len(data)) for _ in range(3)} if data else ():
                    with pytest.raises(BadFrame):
                        DECODE[side](api.key, version, data[:cut])


def foreign_messages():
    """aiokafka's classes by side, number of the API, version."""
    classes = {}
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__, "aiokafka.protocol."):
        for name, made in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(made, Foreign) and isinstance(getattr(made, "API_VERSION", None), int):
                classes["Response" in name, made.API_KEY, made.API_VERSION] = made
    return classes


def positional(struct: Struct, version: int, value) -> tuple:
    """The fields of a version in their order; no tags."""
    values = []
    for field in struct.fields:
        if version in field.versions and field.tag is None:
            one = getattr(value, field.name)
            if field.struct is not None and one is not None:
                one = [positional(field.struct, version, each) for each in one]
                one = [each[0] if len(each) == 1 else each for each in one]  # it has no structs of one field
            values.append(one)
    return (*values, {}) if version in struct.flexible else tuple(values)


def without_tags(struct: Struct, version: int, value):
    """Only the other fields, at any depth."""
    given = {}
    for field in struct.fields:
        if version in field.versions and field.tag is None:
            one = getattr(value, field.name)
            if field.struct is not None and field.many and one is not None:
                one = [without_tags(field.struct, version, each) for each in one]
            given[field.name] = one
    return type(value)(**given)


# classes of aiokafka that it does not use, with wrong types or no tags, and one with two structs in place of one
NOT_KAFKAS = {(False, 2, 4), (False, 2, 5), (False, 29, 2), (True, 29, 2), (False, 37, 0), (False, 37, 1)}


def test_bytes_are_those_of_another_implementation():
    compared = set()
    for (response, key, version), foreign in foreign_messages().items():
        api = APIS.get(key)
        if (response, key, version) in NOT_KAFKAS or not api or not api.oldest <= version <= api.newest:
            continue
        struct, chance = read_schema(api.name)[response], Random(key)
        for _ in range(10):
            sent = without_tags(struct, version, message(api, version, int(response), chance))
            theirs = foreign(*positional(struct, version, sent)).encode()
            assert bytes(whole(ENCODE[response](key, version, sent))) == theirs, (api.name, version, sent)
        compared.add((response, api.name, version))
    assert len(compared) > 60, compared


def test_large_bytes_are_copied_nowhere():
    records = bytearray(b"r" * MIB)
    part = ProduceRequestPartitionData(records=records)
    pieces = encode_request(0, 9, ProduceRequest(topic_data=[ProduceRequestTopicData("t", partition_data=[part])]))
    assert [len(piece) for piece in pieces if piece is records] == [MIB]
    data = bytearray(whole(pieces))
    got = decode_request(0, 9, memoryview(data)).topic_data[0].partition_data[0].records
    data[data.index(b"r")] = ord("q")
    assert bytes(got[:2]) == b"qr", "a view"


def test_records_may_come_in_pieces():
    pieces = [b"a" * 5, memoryview(b"b" * 5000), b"c" * 7]
    partition = FetchResponsePartition(records=pieces)
    encoded = encode_response(1, 12, FetchResponse(responses=[FetchResponseResponse(partitions=[partition])]))
    assert any(piece is pieces[1] for piece in encoded)
    got = decode_response(1, 12, whole(encoded))
    assert bytes(got.responses[0].partitions[0].records) == b"".join(pieces)


def test_none_is_empty_where_a_version_has_no_null():
    answer = MetadataResponse(topics=[MetadataResponseTopic(name=None, topic_id=b"i" * 16)])
    assert decode_response(3, 12, whole(encode_response(3, 12, answer))).topics[0].name is None
    assert decode_response(3, 9, whole(encode_response(3, 9, answer))).topics[0].name == ""
    assert decode_request(3, 0, whole(encode_request(3, 0, MetadataRequest()))).topics == []


@pytest.mark.parametrize(
    ("key", "version", "data", "why"),
    [
        (3, 0, b"\xff\xff\xff\xff", "topics.* null"),
        (3, 0, b"\0\0\0\1\xff\xff", "name.* null"),
        (3, 1, b"\x7f\xff\xff\xff", "topics"),
        (3, 1, b"\0\0\0\1\0\2\xc3\x28", "UTF-8"),
        (3, 9, b"\xff\xff\xff\xff\xff\1", "five bytes"),
        (3, 9, b"\xff\xff\xff\xff\x0f", "topics"),
        (3, 9, b"\2\x82\x80\2" + b"n" * 0x8001 + b"\0\0\0\0", "at most 32767"),
        (3, 9, b"\1\0\0\0\xff\xff\xff\xff\x0f", "tags"),
        (3, 9, b"\1\0\0\0\1\0\xff\xff\xff\xff\x0f", "it needs"),
        (0, 9, b"\0\0\0\0\0\0\0\2\2t\2\0\0\0\0\xff\xff\xff\xff\x0f", "short"),
        (2, 1, b"\xff\xff\xff\xff\x7f\xff\xff\xff", "topics"),
        (1, 13, b"\0" * 25 + b"\xff\xff\xff\xff\x0f", "topics"),
        (1, 13, b"\0" * 21 + b"\0\0\0\0\1\1\1\1\x09\3x", "it needs"),
        (20, 6, b"\xff\xff\xff\x7f" + b"\0" * 60, "topics"),
        (1, 99, b"", "version 99"),
        (99, 0, b"", "API 99"),
    ],
)
def test_what_is_no_message_is_refused_with_a_reason(key, version, data, why):
    with pytest.raises(BadFrame, match=f"(?s){why}"):
        decode_request(key, version, memoryview(data))


def test_a_tag_that_nobody_knows_is_skipped_and_one_that_is_known_is_read():
    request = whole(encode_request(1, 12, FetchRequest(cluster_id="c")))
    plain_request = bytes(whole(encode_request(1, 12, FetchRequest())))
    assert decode_request(1, 12, request).cluster_id == "c"
    odd = plain_request[:-1] + b"\2" + b"\x09\3abc" + b"\0\2\2c"
    assert decode_request(1, 12, memoryview(odd)) == decode_request(1, 12, request)
    overlong = plain_request[:-1] + b"\1" + b"\0\1\2c"
    with pytest.raises(BadFrame, match="cluster_id ends"):
        decode_request(1, 12, memoryview(overlong))


def compact(count: int) -> bytes:
    number, encoded = count + 1, bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


HOSTILE = {
    "topics without a name": (3, 9, lambda n: compact(n // 2) + b"\1\0" * (n // 2) + b"\0\0\0\0"),
    "strings of one letter": (20, 5, lambda n: compact(n // 2) + b"\2t" * (n // 2) + bytes(5)),
    "letters of four bytes": (20, 5, lambda n: compact(n // 127) + (b"\x7f" + b"t" * 122 + "😀".encode()) * (n // 127)),
    "large letters": (
        20,
        5,
        lambda n: compact(n // 30_003) + (b"\xb1\xea\1" + b"t" * 29_996 + "😀".encode()) * (n // 30_003),
    ),
    "topic ids": (20, 6, lambda n: compact(n // 18) + (b"\0" + b"i" * 16 + b"\0") * (n // 18) + bytes(5)),
    "tags": (3, 9, lambda n: b"\1\0\0\0" + compact(n // 2 - 1) + b"\1\0" * (n // 2)),
    "a tag again and again": (
        1,
        12,
        lambda n: bytes(25) + b"\1\1\1" + compact(n // 10 - 1) + b"\0\x08\x08abcdefg" * (n // 10),
    ),
    "partitions without records": (
        0,
        9,
        lambda n: bytes(7) + b"\2\2t" + compact(n // 6) + b"\0\0\0\0\0\0" * (n // 6) + bytes(2),
    ),
    "partitions of a fetch": (
        1,
        12,
        lambda n: b"\x7f" * 25 + b"\2\2t" + compact(n // 33) + (b"\x7f" * 32 + b"\0") * (n // 33) + bytes(4),
    ),
    "numbers": (45, 0, lambda n: bytes(4) + b"\2\2t\2\0\0\0\1" + compact(n // 4) + b"\x7f" * (n // 4 * 4) + bytes(3)),
}


def attempt(key: int, version: int, data: memoryview):
    try:
        return decode_request(key, version, data)
    except BadFrame:
        return None


@pytest.mark.parametrize("what", HOSTILE)
def test_a_frame_costs_little_memory_and_time(what):
    """At most 8 times its size, and its copy, and a mebibyte; whether it is refused or not."""
    key, version, make = HOSTILE[what]
    for size in (10_000, 200_000, MIB, 8 * MIB):
        data = memoryview(make(size))
        began = time.process_time()
        attempt(key, version, data)
        assert time.process_time() - began < 1
        tracemalloc.start()
        kept = attempt(key, version, data)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert used <= 9 * size + MIB, (size, used, kept is None)
