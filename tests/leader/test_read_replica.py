"""FE-19: where a leader sends a consumer that tells its rack."""

from pathlib import Path

import pytest

from leader.delayed_fetch import is_enough
from leader.follower_state import FollowerState
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.log.fetch import FetchAnswer, FetchPartition, Reading
from replog.log.offsets import Isolation
from tests.leader.replicas import (
    LAG_MS,
    NOW_MS,
    ONE_MIB,
    Brokers,
    append_record,
    fetch,
    leader_of,
    log_of,
    proposed,
    state,
)


@pytest.fixture
def brokers() -> Brokers:
    """Broker 1 is in rack a, 2 in b, 3 in c."""
    brokers = Brokers(1, 2, 3)
    for broker_id, rack in ((1, "a"), (2, "b"), (3, "c")):
        brokers.change(broker_id, rack=rack)
    return brokers


@pytest.fixture
def leader(tmp_path: Path, brokers: Brokers) -> PartitionLeader:
    """Log end 10, high watermark 10: both followers have everything."""
    leader = leader_of(log_of(tmp_path, "0:0-9"), state(), brokers)
    for replica_id in (2, 3):
        fetch(leader, replica_id, 10, 0)
    return leader


def consume(leader: PartitionLeader, rack: str, offset: int = 5, epoch: int | None = 0) -> FetchAnswer:
    request = FetchPartition(offset, ONE_MIB, epoch)
    return leader.fetch_as_consumer(request, Isolation.HIGH_WATERMARK, Reading(ONE_MIB, min_one=True), client_rack=rack)


def follower(rack: str, start: int, end: int, caught_up_ms: int = 0) -> tuple[str, FollowerState]:
    return rack, FollowerState(log_start_offset=start, log_end_offset=end, last_caught_up_ms=caught_up_ms)


@pytest.mark.parametrize(
    ("leader_rack", "followers", "chosen"),
    [
        pytest.param("a", [], None, id="nobody else"),
        pytest.param("a", [follower("c", 0, 9)], None, id="nobody in the rack"),
        pytest.param("b", [follower("b", 0, 9)], None, id="the leader is in the rack"),
        pytest.param("a", [follower("b", 0, 5)], 2, id="a follower that ends at the offset"),
        pytest.param("a", [follower("b", 0, 4)], None, id="a follower that lacks the offset"),
        pytest.param("a", [follower("b", 5, 9)], 2, id="a follower that begins at the offset"),
        pytest.param("a", [follower("b", 6, 9)], None, id="a follower that deleted the offset"),
        pytest.param("a", [follower("b", -1, -1)], None, id="a follower that is not known"),
        pytest.param("a", [follower("b", 0, 6), follower("b", 0, 7)], 3, id="the longest log"),
        pytest.param("a", [follower("b", 0, 7, 9), follower("b", 0, 7, 8)], 2, id="as long, caught up later"),
        pytest.param("a", [follower("b", 0, 7), follower("b", 0, 7)], 3, id="all alike"),
    ],
)
def test_the_choice_by_rack_fe_19(leader, brokers, leader_rack, followers, chosen):
    brokers.change(1, rack=leader_rack)
    for broker_id, (rack, _) in enumerate(followers, 2):
        brokers.change(broker_id, rack=rack)
    known = {broker_id: state for broker_id, (_, state) in enumerate(followers, 2)}
    for leader.replicas in (known, dict(reversed(known.items()))):
        assert consume(leader, "b").preferred_read_replica == chosen


def test_a_consumer_is_sent_to_its_rack_without_records(leader):
    answer = consume(leader, "b")
    assert (answer.preferred_read_replica, bytes(answer.records), answer.error) == (2, b"", ErrorCode.NONE)
    assert (answer.high_watermark, answer.log_start_offset) == (10, 0)


@pytest.mark.parametrize("rack", ["", "a", "z"])
def test_others_are_served_by_the_leader(leader, rack):
    answer = consume(leader, rack)
    assert answer.preferred_read_replica is None
    assert answer.records


def test_a_stale_consumer_is_fenced_before_it_is_sent_anywhere_fe_2(leader):
    leader.become_leader(state(epoch=3, partition_epoch=1), 101, NOW_MS)
    answer = consume(leader, "b", epoch=2)
    assert (answer.error, answer.preferred_read_replica) == (ErrorCode.FENCED_LEADER_EPOCH, None)


def test_only_members_of_the_committed_isr_are_candidates(leader):
    """Outside of it a replica may fall behind for ever, and the consumer with it (KAFKA-14372)."""
    leader.become_leader(state(isr=(1, 3), partition_epoch=1), 101, NOW_MS)
    append_record(leader.log, 0)
    fetch(leader, 2, 11, 0)
    assert leader.state.maximal_isr == {1, 2, 3}, "its return is proposed, but not accepted"
    assert consume(leader, "b").preferred_read_replica is None
    leader.on_alter_partition_result(proposed(leader), ErrorCode.NONE, state(partition_epoch=2), NOW_MS)
    assert consume(leader, "b").preferred_read_replica == 2


def test_a_member_that_is_to_leave_is_a_candidate_until_it_has_left_st_1(leader):
    append_record(leader.log, 0)
    leader.check_isr(NOW_MS + LAG_MS + 1)
    assert leader.take_proposal() is not None
    assert consume(leader, "b").preferred_read_replica == 2
    assert consume(leader, "b", offset=11).preferred_read_replica is None, "it does not have the offset"


def test_nobody_is_sent_to_a_broker_that_is_fenced(leader, brokers):
    brokers.change(2, fenced=True)
    assert consume(leader, "b").preferred_read_replica is None


def test_the_name_of_a_replica_is_answered_at_once_fe_11(leader):
    answer = consume(leader, "b")
    assert not answer.records
    assert is_enough([answer], min_bytes=1)
