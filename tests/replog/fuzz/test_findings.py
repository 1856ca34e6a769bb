"""What fuzzing has found, one test for each: bytes that were once answered with the wrong error, or none."""

import pytest

from replog.log.errors import CorruptRecord, InvalidRecord
from replog.log.formats.batch import parse_header
from replog.log.formats.records import iterate_records
from tests.replog.log.batches import append, changed, client_batch, open_log, stamped
from tests.replog.log.compaction.compacting import clean, offsets_of


def test_a_batch_at_the_end_of_all_offsets_is_corrupt():
    """Its last offset, or the one after it, would not fit 64 bits: digests and indexes cannot hold it."""
    with pytest.raises(CorruptRecord, match="no room for offsets after it"):
        parse_header(stamped(client_batch(b"x"), 2**63 - 1, 0))


@pytest.mark.parametrize(("field", "value"), [(27, 2**63 - 1), (27, -(2**63))])
def test_no_record_has_a_timestamp_of_more_than_64_bits(field, value):
    """RB-3: base timestamp and delta add up."""
    batch = changed(client_batch(b"x", b"y", timestamps=[1000, 1001 if value > 0 else 999]), field, ">q", value)
    with pytest.raises(InvalidRecord, match="no record of batch"):
        list(iterate_records(batch, parse_header(batch)))


def test_no_record_has_an_offset_outside_of_its_batch():
    """RB-3: the first record's offset delta is the fourth byte of the record."""
    batch = changed(client_batch(b"x"), 61 + 3, ">B", 2)  # zigzag of 1
    with pytest.raises(InvalidRecord, match="offset 1, timestamp 1000: no record of batch 0 to 0"):
        list(iterate_records(batch, parse_header(batch)))


def test_a_timestamp_of_more_than_64_bits_cannot_stop_the_cleaner(tmp_path):
    """CL-7: a cleaned batch's greatest timestamp is that of its records. So a leader does not take such a batch."""
    sent = client_batch((b"k", b"a"), (b"l", b"b"), (b"m", b"c"), timestamps=[1, 2, 3])
    batch = changed(sent, 27, ">q", 2**63 - 2)
    log = open_log(tmp_path, cleanup_policy="compact")
    with pytest.raises(InvalidRecord, match="record 2 of the batch has a timestamp of 9223372036854775808"):
        log.append_as_leader(batch, leader_epoch=0, now_ms=0)
    log.append_as_follower(stamped(batch, 0, 0))
    append(log, client_batch((b"k", b"d")))
    log.roll()
    log.update_high_watermark(4)
    with pytest.raises(InvalidRecord, match="batch 0 has a record with a timestamp of more than 64 bits"):
        clean(log)


def test_a_timestamp_below_none_cannot_stop_the_cleaner_either(tmp_path):
    """CL-6: from a delete horizon without end back to -7 there is no delta of 64 bits."""
    batch = changed(changed(client_batch((b"k", None)), 27, ">q", -7), 35, ">q", -7)
    log = open_log(tmp_path, cleanup_policy="compact", delete_retention_ms=2**63 - 1)
    with pytest.raises(InvalidRecord, match="record 0 of the batch has a timestamp of -7"):
        log.append_as_leader(batch, leader_epoch=0, now_ms=0)
    log.append_as_follower(stamped(batch, 0, 0))
    log.roll()
    log.update_high_watermark(1)
    with pytest.raises(InvalidRecord, match="batch 0 has a record with a timestamp of -7"):
        clean(log)


def test_a_delete_retention_without_end_keeps_tombstones(tmp_path):
    """CL-6: the time until which they stay would not fit 64 bits."""
    log = open_log(tmp_path, cleanup_policy="compact", delete_retention_ms=2**63 - 1)
    append(log, client_batch((b"k", b"a"), (b"k", None)))
    log.roll()
    log.update_high_watermark(2)
    clean(log, 1000)
    clean(log, 10**15)
    assert offsets_of(log) == [1]
