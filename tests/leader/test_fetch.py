"""What a fetch is answered, and the other questions about offsets. The table R-W-F is in tests/scenarios/fetch.txt."""

from pathlib import Path

import pytest

from leader.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import FetchPartition, Reading
from replog.log.offsets import Isolation
from tests.leader.replicas import NOW_MS, ONE_MIB, Brokers, fetch, leader_of, log_of, outcome, state
from tests.replog.log.batches import client_batch


@pytest.fixture
def leader(tmp_path: Path) -> PartitionLeader:
    """Leader epoch 12, log start 3, log end 30, high watermark 25."""
    log = log_of(tmp_path, "1:3-5", "6:6-19", "9:20-29", high_watermark=25)
    return leader_of(log, state(epoch=12))


def consume(
    leader: PartitionLeader, offset: int, isolation: Isolation = Isolation.HIGH_WATERMARK, **request: int
) -> tuple[str, bytes]:
    answer = leader.fetch_as_consumer(
        FetchPartition(offset, ONE_MIB, **request), isolation, Reading(ONE_MIB, min_one=True)
    )
    return outcome(answer), bytes(answer.records)


def test_a_consumer_is_fenced_and_told_of_divergence_too(leader):
    assert consume(leader, 20, current_leader_epoch=11)[0] == "FENCED_LEADER_EPOCH"
    assert consume(leader, 20, current_leader_epoch=13)[0] == "UNKNOWN_LEADER_EPOCH"
    assert consume(leader, 7, last_fetched_epoch=3)[0] == "diverging 1,6"


def refusal(leader: PartitionLeader, timestamp: int, isolation: Isolation, epoch: int | None = None) -> ErrorCode:
    with pytest.raises(ReplogError) as refused:
        leader.list_offset(timestamp, isolation, epoch)
    return refused.value.code


CLIENTS = [Isolation.HIGH_WATERMARK, Isolation.TXN_COMMITTED]


def test_replicas_and_earliest_do_not_wait_fe_22(leader):
    assert leader.list_offset(LATEST_TIMESTAMP, Isolation.LOG_END, None).offset == 30
    for isolation in Isolation:
        earliest = leader.list_offset(EARLIEST_TIMESTAMP, isolation, None)
        assert (earliest.offset, earliest.timestamp, earliest.leader_epoch) == (3, -1, 1)


@pytest.mark.parametrize("isolation", CLIENTS)
def test_a_timestamp_is_answered_below_the_bound_only_fe_22(leader, isolation):
    """Past it, and where there is none, the answer waits like the latest offset; then there is none."""
    late = client_batch(b"late", timestamps=[7000])
    leader.log.append_as_leader(late, leader_epoch=12, now_ms=0)
    answer = leader.list_offset(500, isolation, None)  # the other records' timestamp is 1000
    assert (answer.offset, answer.timestamp, answer.leader_epoch) == (3, 1000, 1)
    for timestamp in (5000, 9000):
        assert refusal(leader, timestamp, isolation) is ErrorCode.OFFSET_NOT_AVAILABLE
    for replica_id in (2, 3):
        fetch(leader, replica_id, 30, 9)
    for timestamp in (5000, 9000):
        assert leader.list_offset(timestamp, isolation, None).offset == -1
    assert leader.list_offset(5000, Isolation.LOG_END, None).offset == 30, "a replica sees all"
    for replica_id in (2, 3):
        fetch(leader, replica_id, 31, 12)
    assert leader.list_offset(5000, isolation, None).offset == 30
    assert leader.list_offset(9000, isolation, None).offset == -1


def test_read_committed_asks_for_the_last_stable_offset_fe_22(leader):
    transactional = client_batch(b"open", producer_id=7, producer_epoch=0, base_sequence=0, transactional=1)
    leader.log.append_as_leader(transactional, leader_epoch=12, now_ms=0)
    for replica_id in (2, 3):
        fetch(leader, replica_id, 31, 12)
    latest = [leader.list_offset(LATEST_TIMESTAMP, isolation, None).offset for isolation in CLIENTS]
    assert latest == [31, 30]


def test_other_negative_timestamps_mean_nothing(leader):
    assert refusal(leader, -3, Isolation.HIGH_WATERMARK) is ErrorCode.INVALID_TIMESTAMP


def test_questions_about_offsets_are_fenced(leader):
    assert refusal(leader, LATEST_TIMESTAMP, Isolation.LOG_END, 11) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(leader, LATEST_TIMESTAMP, Isolation.LOG_END, 13) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_records_are_deleted_up_to_the_high_watermark_at_most(leader):
    for offset in (26, -2):
        with pytest.raises(ReplogError, match="OFFSET_OUT_OF_RANGE"):
            leader.delete_records(offset)
    assert leader.delete_records(10) == 10
    assert leader.log.log_start_offset == 10
    assert leader.delete_records(-1) == 25


@pytest.mark.parametrize(
    ("change", "keeps_records", "is_read", "joins"),
    [
        ({}, True, True, True),
        ({"in_controlled_shutdown": True}, True, True, False),  # it serves meanwhile, and may not come back for long
        ({"fenced": True}, False, False, False),
    ],
    ids=["active", "stopping", "fenced"],
)
def test_what_a_replicas_broker_must_be_to_count(tmp_path, change, keeps_records, is_read, joins):
    """FT-23, FE-19, ISR-2."""
    brokers = Brokers(1, 2, 3)
    leader = leader_of(log_of(tmp_path, "0:0-9", high_watermark=9), state(isr=(1, 2)), brokers)
    for broker_id in (2, 3):
        fetch(leader, broker_id, 10, 0, now_ms=NOW_MS)
        brokers.change(broker_id, rack="there", **change)
    leader.on_alter_partition_result(leader.take_proposal(), ErrorCode.INELIGIBLE_REPLICA, None, NOW_MS)
    leader.delete_records(5)
    assert (leader.low_watermark() < 5) is keeps_records
    how = Reading(ONE_MIB, min_one=True)
    answer = leader.fetch_as_consumer(FetchPartition(9, ONE_MIB), Isolation.HIGH_WATERMARK, how, client_rack="there")
    assert (answer.preferred_read_replica == 2) is is_read
    fetch(leader, 3, 10, 0, now_ms=NOW_MS)
    assert (leader.take_proposal() is not None) is joins


def test_a_damaged_segment_is_an_answer_and_not_an_exception(leader):
    leader.log.abandon()
    assert fetch(leader, 2, 20, 6, now_ms=NOW_MS).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert fetch(leader, 2, 30, 12, now_ms=NOW_MS).error is ErrorCode.KAFKA_STORAGE_ERROR, "where nothing is read, too"
