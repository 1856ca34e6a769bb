"""Golden bytes (S-W-B1 to S-W-B7), the header's checks, walks over batches in memory (2.5)."""

import struct

import pytest
from crc32c import crc32c

from replog.log.errors import CorruptRecord
from replog.log.formats.batch import HEADER_SIZE, iterate_batches, parse_header, validate_crc
from replog.log.formats.records import LogRecord, iterate_records
from replog.log.offsets import Isolation
from replog.log.producers.state import sequence_of_last
from tests.replog.log.batches import append, client_batch, leader_batch, open_log

W_B1 = bytes.fromhex(
    "00000000000000000000003c0000000002b36be24400000000000000000000000003e800000000000003e8ffffffffffffffffffff"
    "ffffffff000000011400000001087465737400"
)
W_B2 = bytes.fromhex(
    "000000000000002a000000450000000702db7080c00000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffff"
    "ffffffff0000000214000000046b310476310010000a02046b320100"
)
W_B3 = bytes.fromhex(
    "00000000000000640000004900000002027e6d73ee000000000002000000000000000a000000000000000c000000000000000900030000"
    "0005000000030e000000010261000e000402010262000e00020401026300"
)
W_B4 = bytes.fromhex(
    "0000000000000007000000420000000402116bbabe003000000000000000000000007b000000000000007b00000000000000090003ffff"
    "ffff000000012000000008000000010c00000000000600"
)
W_B5 = bytes.fromhex(
    "0000000000000005000000430000000102add4f9df00000000000000000000000000320000000000000032ffffffffffffffffffffffff"
    "ffff0000000122000000026b027604046831027804683201"
)


@pytest.mark.parametrize(
    ("golden", "offset", "epoch", "sizes"),
    [
        (W_B1, 0, 0, (72, 1)),
        (W_B2, 42, 7, (81, 2)),
        (W_B3, 100, 2, (85, 3)),
        (W_B4, 7, 4, (78, 1)),
        (W_B5, 5, 1, (79, 1)),
    ],
    ids=["S-W-B1", "S-W-B2", "S-W-B3", "S-W-B4", "S-W-B5"],
)
def test_golden_batches_parse_and_their_crc_holds(golden, offset, epoch, sizes):
    """S-W-B1, S-W-B2, S-W-B3, S-W-B4, S-W-B5; RB-1, RB-6: a batch is 12 bytes and its length field."""
    header = parse_header(golden)
    assert (header.base_offset, header.leader_epoch) == (offset, epoch)
    assert (header.size, header.records_count) == sizes
    assert header.next_offset == offset + sizes[1]
    assert validate_crc(golden, 0, header)


def test_are_what_the_independent_encoder_writes():
    """S-W-B1, S-W-B3."""
    assert leader_batch(0, 0, b"test", timestamps=[1000]) == W_B1
    assert (
        leader_batch(
            100, 2, b"a", b"b", b"c", timestamps=[10, 12, 11], producer_id=9, producer_epoch=3, base_sequence=5
        )
        == W_B3
    )


def test_the_smallest_batch_is_a_header():
    """RB-1: 61 bytes, as compaction leaves them; one less in the length field is no batch."""
    data = bytearray(W_B1[:61])
    struct.pack_into(">i", data, 8, 49)
    struct.pack_into(">i", data, 57, 0)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    header = parse_header(data)
    assert (header.size, validate_crc(data, 0, header), list(iterate_batches(data))) == (61, True, [(0, header)])
    struct.pack_into(">i", data, 8, 48)
    with pytest.raises(CorruptRecord, match="length 48"):
        parse_header(data)


def test_the_leader_may_stamp_a_batch_without_its_crc():
    """RB-2: base offset, length, leader epoch and magic lie before what the CRC covers; so does damage to them."""
    header = parse_header(W_B1)
    for position in range(17):
        data = bytearray(W_B1)
        data[position] ^= 1
        assert validate_crc(data, 0, header), position


@pytest.mark.parametrize(
    ("base_sequence", "delta", "last"),
    [(5, 0, 5), (5, 2, 7), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 2, 1), (-1, 2, -1)],
)
def test_the_sequence_of_a_record_wraps(base_sequence, delta, last):
    """RB-5: the one of the last record, from the batch's."""
    header = parse_header(W_B3)._replace(base_sequence=base_sequence, last_offset_delta=delta)
    assert sequence_of_last(header) == last


def test_golden_records_decode():
    assert list(iterate_records(W_B2, parse_header(W_B2))) == [
        LogRecord(42, 1700000000000, b"k1", b"v1", ()),
        LogRecord(43, 1700000000005, b"k2", None, ()),
    ]
    assert [record.timestamp for record in iterate_records(W_B3, parse_header(W_B3))] == [10, 12, 11]
    assert list(iterate_records(W_B5, parse_header(W_B5))) == [
        LogRecord(5, 50, b"k", b"v", (("h1", b"x"), ("h2", None)))
    ]


def test_a_leader_changes_only_the_epoch_of_a_first_batch(tmp_path):
    """S-W-B6, RB-2: base offset and epoch lie outside of the CRC."""
    sent = client_batch(b"a", b"b", b"c", timestamps=[10, 30, 20])
    log = open_log(tmp_path)
    info = log.append_as_leader(sent, leader_epoch=5, now_ms=99)
    assert (info.first_offset, info.last_offset, info.max_timestamp, info.log_append_time) == (0, 2, 30, -1)
    stored = log.read(0, 1000, Isolation.LOG_END, min_one_message=True).records
    assert stored == sent[:12] + bytes([0, 0, 0, 5]) + sent[16:]
    assert parse_header(stored).crc == 0x8DF26265


def test_log_append_time_restamps_the_batch_but_not_its_base_timestamp(tmp_path):
    """S-W-B7, RB-4."""
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    info = append(log, client_batch(b"a", b"b", timestamps=[10, 20]), now_ms=0).append_as_leader(
        client_batch(b"a", b"b", timestamps=[10, 20]), leader_epoch=0, now_ms=777
    )
    assert (info.max_timestamp, info.log_append_time) == (777, 777)
    stored = log.read(2, 1000, Isolation.LOG_END, min_one_message=True).records
    header = parse_header(stored)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0x0008, 10, 777)
    assert validate_crc(stored, 0, header)
    assert [record.timestamp for record in iterate_records(stored, header)] == [777, 777]  # RB-4


@pytest.mark.parametrize(
    ("position", "layout", "value", "said"),
    [
        (0, ">q", -1, "base offset -1"),
        (8, ">i", 48, "length 48"),
        (8, ">i", -5, "length -5"),
        (16, ">b", 3, "magic 3"),
        (16, ">b", 1, "magic 1"),
        (23, ">i", -1, "last offset delta -1"),
        (57, ">i", -1, "-1 records"),
        (57, ">i", 2, "2 records"),
    ],
)
def test_a_header_that_no_batch_can_have_is_corrupt(position, layout, value, said):
    data = bytearray(W_B1)
    struct.pack_into(layout, data, position, value)
    with pytest.raises(CorruptRecord, match=said):
        parse_header(data)


def test_iteration_ends_at_a_partial_batch_and_raises_at_no_batch():
    """RB-7: eleven zeros are silent; eighteen are corrupt, since a length of 0 is below 14."""
    data = W_B1 + W_B2
    for cut in range(len(data) + 1):
        whole = (cut >= 72) + (cut >= len(data))
        whole_batches = list(iterate_batches(memoryview(data)[:cut]))
        assert [position for position, _ in whole_batches] == [0, 72][:whole], cut
    for garbage in (bytes(12), bytes(18), bytes(HEADER_SIZE + 9), b"Z" * 17):
        batches = iterate_batches(W_B1 + garbage)
        assert next(batches)[0] == 0
        with pytest.raises(CorruptRecord):  # RB-7: length 0 < 14; magic 0x5A
            next(batches)
    assert len(list(iterate_batches(W_B1 + bytes(11)))) == 1
