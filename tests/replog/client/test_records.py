"""Record batches as clients write and read them."""

import struct
from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from replog.client.records import BatchBuilder, Record, Undecodable, decode_fetched, encode_batch, largest_batch_of
from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import parse_header, validate_crc
from replog.log.formats.records import iterate_records
from tests.replog.client.decoding import decode
from tests.spark_jobs.records.hostile import GOOD, HOSTILE, laid_out

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Given = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]

HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
RECORDS = st.lists(
    st.tuples(st.integers(0, 2**62), st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=200), HEADERS),
    min_size=1,
    max_size=20,
)


def at(data: bytes | bytearray, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The batch as a leader stamps it."""
    stamped = bytearray(data)
    struct.pack_into(">q", stamped, 0, base_offset)
    struct.pack_into(">i", stamped, 12, leader_epoch)
    return bytes(stamped)


@given(RECORDS, st.sampled_from(CODECS))
def test_records_come_back_as_they_went_in(records, codec):
    decoded = list(decode(encode_batch(records, codec), "t", 3))
    assert [(r.timestamp, r.key, r.value, r.headers) for r in decoded] == [(t, k, v, list(h)) for t, k, v, h in records]
    assert [r.offset for r in decoded] == list(range(len(records)))
    assert {(r.topic, r.partition, r.timestamp_type) for r in decoded} == {("t", 3, 0)}


@given(RECORDS, st.sampled_from(range(len(CODECS))))
def test_batches_are_what_kafkas_clients_write_byte_for_byte(records, codec):
    """2.1, 2.2: against another encoder. Compressed ones have the same records, and bytes of another compressor."""
    ours, theirs = BatchBuilder(1 << 20, codec), DefaultRecordBatchBuilder(2, codec, 0, 7, 3, 11, 1 << 20)
    for number, (timestamp, key, value, headers) in enumerate(records):
        size = ours.append(timestamp, key, value, headers)
        assert size == theirs.append(number, timestamp, key, value, list(headers)).size
    data, expected = b"".join(ours.build(7, 3, 11)), bytes(theirs.build())
    if codec == 0:
        assert data == expected
    header = parse_header(data)
    assert validate_crc(data, 0, header)
    assert header.size == len(data)
    assert list(iterate_records(data, header)) == list(iterate_records(expected, parse_header(expected)))


@pytest.mark.parametrize(
    "size", [0, 1, 55, 56, 57, 58, 63, 64, 100, 8180, 8181, 8182, 8190, 8191, 8192, 1 << 20, (1 << 20) + 1]
)
def test_sizes_at_the_edges_of_varints_are_encoded_as_by_another_encoder(size):
    ours, theirs = BatchBuilder(1 << 30), DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for number in range(70):
        ours.append(1000 + number, None, bytes(size), ())
        theirs.append(number, 1000 + number, None, bytes(size), [])
    assert b"".join(ours.build()) == theirs.build()


def test_a_batch_can_be_numbered_anew_and_keeps_its_records():
    builder = BatchBuilder(1000)
    for value in (b"v", b"w"):
        builder.append(1, b"k", value, [("h", b"x")])
    first, again = b"".join(builder.build()), b"".join(builder.build(2**63 - 1, 2**15 - 1, 2**31 - 1))
    header = parse_header(again)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**63 - 1, 2**15 - 1, 2**31 - 1)
    assert validate_crc(again, 0, header)
    assert list(decode(again)) == list(decode(first))
    assert [(r.key, r.value, r.headers) for r in decode(again)] == [
        (b"k", b"v", [("h", b"x")]),
        (b"k", b"w", [("h", b"x")]),
    ]


def test_what_is_not_made_of_bytes_is_refused_and_leaves_the_batch_as_it_was():
    builder = BatchBuilder(1000)
    builder.append(5, None, b"a", ())
    for key, value in [("key", b"v"), (None, "value"), (None, 7), (1, b"v")]:
        with pytest.raises(TypeError):
            builder.append(5, key, value, ())
    for timestamp in (-1, 2**63):
        with pytest.raises(OverflowError):
            builder.append(timestamp, None, b"v", ())
    changing = bytearray(b"as it was")
    builder.append(5, None, changing, ())
    changing[:] = b"otherwise"
    assert [record.value for record in decode(b"".join(builder.build()))] == [b"a", b"as it was"]


@given(RECORDS)
def test_no_record_takes_more_than_its_upper_bound(records):
    for record in records:
        assert len(encode_batch([record])) <= largest_batch_of(*record[1:])


def test_sizes_are_those_of_rb_6():
    assert len(encode_batch([(0, None, b"x", ())])) == 69
    assert len(encode_batch([(0, None, b"test", ())])) == 72
    assert len(encode_batch([(0, None, b"x", ()), (0, None, b"y", ())])) == 77


@pytest.mark.parametrize("name", CODECS[1:])
def test_damaged_compression_under_a_right_crc_is_a_corrupt_message(name):
    """2.4: the CRC covers the compressed bytes, so a writer's mistake comes through it."""
    data = at(encode_batch([(i, b"k", b"same value " * 50, ()) for i in range(20)], name), 5)[:-9]
    whole = bytearray(data)
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    struct.pack_into(">I", whole, 17, crc32c(whole[21:]))
    with pytest.raises(ReplogError, match="t-0: the batch at offset 5 does not decode: .*" + name) as corrupt:
        decode_fetched(whole, "t", 0, 5)
    assert corrupt.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("row", HOSTILE.values(), ids=HOSTILE)
def test_whatever_one_client_writes_what_stands_before_it_is_read_and_the_error_says_where_to_go_on(row):
    data, after = laid_out([GOOD, row.batch, GOOD]), 0
    before, wrong = _decoded(data, 0)
    if wrong:
        assert wrong.startswith("t-0: the batch at offset 1 does not decode: ")
        assert [record.offset for record in before] == [0]
        after = int(wrong.rpartition("; to go on behind it, seek to ")[2])
    behind, wrong = _decoded(data, after)
    assert (before[0].value, behind[-1].value, wrong) == (b"good", b"good", "")


def _decoded(data: bytes, offset: int) -> tuple[list[Record], str]:
    """The records from there on, and what ended them."""
    try:
        return decode_fetched(data, "t", 0, offset).records, ""
    except Undecodable as error:
        return [] if error.before is None else error.before.records, error.message


def test_a_full_batch_takes_no_more_but_its_first_record_always_fits():
    builder = BatchBuilder(100)
    assert builder.append(0, None, b"x" * 500, ()) > 500
    assert builder.append(0, None, b"x", ()) == 0
    assert builder.full
    assert [record.value for record in decode(b"".join(builder.build()))] == [b"x" * 500]


VALUES = st.lists(st.none() | st.binary(max_size=20) | st.sampled_from([b"x" * 63, b"x" * 64, bytearray(9)]))


@example([b"no room"], None, 2000, 500, 0)
@given(VALUES, st.none() | st.binary(max_size=5), st.integers(0, 2000), st.integers(70, 500), st.integers(0, 500))
def test_many_values_at_once_are_the_records_that_they_would_be_one_by_one(values, key, timestamp, batch_size, most):
    many, each = BatchBuilder(batch_size), BatchBuilder(batch_size)
    for builder in (many, each):
        builder.append(1000, b"first", b"first", ())
    expected, left = (), most
    for value in values:
        size = each.append(timestamp, key, value, (), left)
        left -= size
        if not size:
            expected = (value,)
            break
    assert many.append_many(timestamp, key, iter(values), most) == expected
    assert (many.count, many.size, many.full) == (each.count, each.size, each.full)
    assert many.build() == each.build()


def test_many_values_may_be_so_many_that_their_offsets_get_longer():
    many, each = BatchBuilder(1 << 20), BatchBuilder(1 << 20)
    values = [b"abc"[: number % 4] for number in range(8200)]
    for builder in (many, each):
        builder.append(5, None, b"first", ())
    for value in values:
        each.append(5, None, value, ())
    assert many.append_many(5, None, iter(values), 1 << 20) == ()
    assert many.build() == each.build()


def test_of_many_values_those_before_one_that_is_not_made_of_bytes_are_in_the_batch():
    builder = BatchBuilder(1000)
    builder.append(5, None, b"a", ())
    values = iter([b"b", bytearray(b"c"), "text", b"d"])
    with pytest.raises(TypeError):
        builder.append_many(5, None, values, 1000)
    assert builder.append_many(5, None, values, 1000) == ()
    assert [record.value for record in decode(b"".join(builder.build()))] == [b"a", b"b", b"c", b"d"]


def test_records_below_the_fetch_offset_and_a_cut_off_batch_are_skipped():
    three = encode_batch([(i, None, b"%d" % i, ()) for i in range(3)])
    buffer = at(three, 10, 4) + at(three, 13, 5) + at(three, 16, 6)[:-1]
    decoded = decode_fetched(buffer, "t", 0, 12)
    assert [(r.offset, r.value, r.leader_epoch) for r in decoded.records] == [
        (12, b"2", 4),
        (13, b"0", 5),
        (14, b"1", 5),
        (15, b"2", 5),
    ]
    assert decoded.next_offset == 16


@pytest.mark.parametrize("position", [17, 21, 60, 61, 65, -1])
def test_a_flipped_bit_is_a_corrupt_message_that_names_the_batch(position):
    data = bytearray(at(encode_batch([(0, None, b"value", ())]), 5))
    data[position] ^= 1
    with pytest.raises(ReplogError, match="t-0: the batch at offset 5") as corrupt:
        decode_fetched(data, "t", 0, 5)
    assert corrupt.value.code is ErrorCode.CORRUPT_MESSAGE
