"""What leaders and followers refuse to append, and what stays in the log then (2.7, 2.8)."""

import re

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.log.errors import CorruptRecord, OffsetsOutOfOrder
from tests.replog.log.batches import append, changed, client_batch, files_of, layout, leader_batch, open_log

GOOD = client_batch(b"a", b"b")


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:40], ErrorCode.CORRUPT_MESSAGE),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (GOOD + bytes(11), ErrorCode.CORRUPT_MESSAGE),
        (GOOD + bytes(61), ErrorCode.CORRUPT_MESSAGE),
        (GOOD + GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 65, ">B", 77, fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 17, ">I", 1, fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 16, ">B", 1), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 0, ">q", 5), ErrorCode.INVALID_RECORD),
        (changed(GOOD, 57, ">i", 1), ErrorCode.INVALID_RECORD),
        (changed(GOOD, 57, ">i", 3), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 57, ">i", 0), ErrorCode.INVALID_RECORD),
        (changed(changed(GOOD, 57, ">i", 2**31 - 1), 23, ">i", 2**31 - 2), ErrorCode.INVALID_RECORD),
        (changed(changed(changed(GOOD, 57, ">i", 2**30), 23, ">i", 2**30 - 1), 21, ">h", 4), ErrorCode.INVALID_RECORD),
        (changed(GOOD, 21, ">h", 0x20), ErrorCode.INVALID_RECORD),  # clients may not append control batches
        (changed(GOOD, 21, ">h", 0x10), ErrorCode.INVALID_RECORD),
        (changed(GOOD, 21, ">h", 0x40), ErrorCode.INVALID_RECORD),
        (changed(GOOD, 21, ">h", 0x05), ErrorCode.INVALID_RECORD),
        (changed(GOOD, 21, ">h", 0x08), ErrorCode.INVALID_TIMESTAMP),
        (changed(GOOD, 43, ">q", 7), ErrorCode.INVALID_RECORD),
        (client_batch(b"x" * 400), ErrorCode.MESSAGE_TOO_LARGE),
        (client_batch(b"x" * 250), ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
def test_a_leader_refuses_a_bad_batch_and_stays_as_it_was(tmp_path, records, code):
    """LG-2; unlike Kafka's, which notes the epoch first."""
    log = append(open_log(tmp_path, max_message_bytes=400, segment_bytes=300), GOOD)
    before = files_of(tmp_path)
    with pytest.raises(ReplogError) as caught:
        log.append_as_leader(records, leader_epoch=3, now_ms=0)
    assert caught.value.code is code
    assert files_of(tmp_path) == before
    assert (log.log_end_offset, log.epochs.entries) == (2, ((0, 0),)), "a refused append leaves no epoch behind"


HOUR = 3_600_000
NOW = 1_000 * HOUR


@pytest.mark.parametrize(
    ("times", "settings", "refused"),
    [
        ([NOW + HOUR], {}, None),
        ([NOW + HOUR + 1], {}, "after the leader's clock, and message.timestamp.after.max.ms=3600000"),
        ([NOW, NOW + HOUR + 1, NOW], {}, f"dated {NOW + HOUR + 1}, {HOUR + 1} ms after"),
        ([NOW * 1000], {}, "milliseconds since 1970"),
        ([2**63 - 1], {}, "message.timestamp.after.max.ms"),
        ([2**63 - 1], {"message_timestamp_after_max_ms": 2**63 - 1}, None),
        ([NOW + 1], {"message_timestamp_after_max_ms": 0}, "message.timestamp.after.max.ms=0"),
        ([2**63 - 1], {"message_timestamp_type": "LogAppendTime"}, None),
        ([0], {}, None),
        ([NOW - 500], {"message_timestamp_before_max_ms": 500}, None),
        ([NOW - 501, NOW], {"message_timestamp_before_max_ms": 500}, f"dated {NOW - 501}, 501 ms before"),
        ([-1], {"message_timestamp_before_max_ms": 500}, None),
        ([0], {"message_timestamp_before_max_ms": 500, "message_timestamp_type": "LogAppendTime"}, None),
    ],
)
def test_a_leader_takes_records_of_about_now(tmp_path, times, settings, refused):
    """2.7, divergence 56: by the first and the greatest time in the header. Followers take what leaders took."""
    log, records = open_log(tmp_path, **settings), client_batch(*[b"x"] * len(times), timestamps=times)
    if refused is None:
        append(log, records, now_ms=NOW)
    else:
        with pytest.raises(ReplogError, match=re.escape(refused)) as caught:
            append(log, records, now_ms=NOW)
        assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
        log.append_as_follower(leader_batch(0, 0, *[b"x"] * len(times), timestamps=times))
    assert log.log_end_offset == len(times)


def test_a_retry_of_what_is_in_the_log_is_not_too_old(tmp_path):
    """PS-3: the producer must not hear that it failed."""
    log = open_log(tmp_path, message_timestamp_before_max_ms=500)
    records = client_batch(b"x", timestamps=[NOW], producer_id=5, producer_epoch=0, base_sequence=0)
    first = log.append_as_leader(bytes(records), leader_epoch=0, now_ms=NOW)
    again = log.append_as_leader(bytes(records), leader_epoch=0, now_ms=NOW + HOUR)
    assert (first.first_offset, again.first_offset, log.log_end_offset) == (0, 0, 1)


def test_nothing_is_appended_for_no_bytes(tmp_path):
    log = open_log(tmp_path)
    assert log.append_as_leader(b"", leader_epoch=0, now_ms=0).last_offset == -1
    log.append_as_follower(b"")
    log.append_as_follower(leader_batch(0, 0, b"a")[:-1])
    assert (log.log_end_offset, log.epochs.entries) == (0, ())


def test_a_leader_epoch_never_goes_back(tmp_path):
    """EP-3."""
    log = append(open_log(tmp_path), GOOD, epoch=4)
    with pytest.raises(ValueError, match="leader epoch 3 is below 4"):
        append(log, GOOD, epoch=3)
    log.assign_epoch_start(7)
    assert log.epochs.entries == ((4, 0), (7, 2))  # EP-3: before any data
    assert log.end_offset_for_epoch(4) == (4, 2)


def test_buffers_of_every_kind_are_taken(tmp_path):
    log = open_log(tmp_path)
    for kind in (bytes, bytearray, memoryview):
        info = log.append_as_leader(kind(GOOD), leader_epoch=0, now_ms=0)
        assert info.size == len(GOOD)
        log.append_as_follower(kind(leader_batch(log.log_end_offset, 0, b"a")))
    assert log.log_end_offset == 9


BATCHES = [leader_batch(0, 1, b"a", b"b"), leader_batch(2, 1, b"c"), leader_batch(3, 2, b"d")]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (changed(leader_batch(4, 2, b"e"), 65, ">B", 77, fix_crc=False), CorruptRecord),
        (changed(leader_batch(4, 2, b"e"), 16, ">B", 3), CorruptRecord),
        (bytes(30), CorruptRecord),
        (leader_batch(5, 2, b"e"), OffsetsOutOfOrder),
        (leader_batch(3, 2, b"e"), OffsetsOutOfOrder),
        (leader_batch(4, 1, b"e"), OffsetsOutOfOrder),
        (leader_batch(4, -1, b"e"), OffsetsOutOfOrder),
    ],
)
def test_a_follower_appends_what_precedes_the_first_bad_batch(tmp_path, bad, error):
    """FT-11: nothing from that batch on; the log end says from where to go on. S-W-U10, EP-3: each epoch is noted."""
    log = open_log(tmp_path)
    with pytest.raises(error):
        log.append_as_follower(b"".join([*BATCHES, bad, leader_batch(5, 2, b"f")]))
    assert (log.log_end_offset, log.epochs.entries) == (4, ((1, 0), (2, 3)))
    log.append_as_follower(leader_batch(4, 2, b"e"))
    assert log.log_end_offset == 5


def test_offsets_past_31_bits_roll(tmp_path):
    """S-W-U9, changed: one batch spans the offsets that the table leaves out."""
    log = open_log(tmp_path)
    wide = changed(leader_batch(0, 2, b"a"), 23, ">i", 2**31 - 2)
    log.append_as_follower(wide + leader_batch(2**31 - 1, 2, b"b") + leader_batch(2**31, 2, b"c"))
    assert layout(log) == [(0, 138), (2147483648, 69)]


def test_a_follower_takes_a_batch_larger_than_its_segments(tmp_path):
    """`segment.bytes` may have been lowered since the leader took it; Kafka's followers stop there."""
    log = open_log(tmp_path, segment_bytes=100)
    log.append_as_follower(leader_batch(0, 0, b"a") + leader_batch(1, 0, b"x" * 200) + leader_batch(2, 0, b"b"))
    assert [base for base, _ in layout(log)] == [0, 1, 2]
