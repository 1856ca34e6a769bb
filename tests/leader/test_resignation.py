"""When a leader asks to lead no more (ISR-20). What follows is told in tests/scenarios/resignation.txt."""

from pathlib import Path

import pytest

from leader.failure_detector import should_resign, silence_ms
from leader.partition_leader import PartitionLeader
from tests.leader.replicas import NOW_MS, fetch, leader_of, log_of, produce, proposed, state

OTHERS = frozenset({2, 3, 4})
LATER_MS = NOW_MS + 2000


@pytest.fixture
def leader(tmp_path: Path) -> PartitionLeader:
    """Of an epoch that began at NOW_MS, with a record that nobody else has."""
    leader = leader_of(log_of(tmp_path, "0:0-9", min_insync_replicas=2), state(epoch=4))
    produce(leader)
    return leader


def test_at_the_beginning_of_an_epoch_they_have_not_had_the_time_to_speak_isr_20_st_11(leader):
    assert not should_resign(leader, OTHERS, OTHERS, NOW_MS - 1)


def test_a_follower_that_has_just_had_all_is_not_silent_in_this_partition(leader):
    fetch(leader, 3, 11, 4, now_ms=LATER_MS)
    assert not should_resign(leader, OTHERS, OTHERS, LATER_MS - 1)
    assert should_resign(leader, OTHERS, OTHERS, LATER_MS)


def test_silence_is_half_of_what_it_takes_to_leave_the_isr_but_no_shorter_than_two_idle_fetches():
    assert silence_ms(30_000, 500) == 2000
    assert silence_ms(3000, 500) == 1500
    assert silence_ms(1500, 500) == 1000
    assert silence_ms(30_000, 5000) == 10_000


def test_a_proposal_under_way_comes_first_isr_4(leader):
    leader.check_isr(NOW_MS + 60_000)
    proposed(leader)
    leader.resign()
    assert leader.take_proposal() is None


def test_a_member_that_the_controller_took_out_is_not_waited_for_before_it_asks_again_ct_23_st_12(tmp_path):
    """Else it would be, as one that has just kept up (HW-3), for as long as a follower may lag."""
    leader = leader_of(log_of(tmp_path, "0:0-9", min_insync_replicas=2), state(epoch=4))
    for follower in (2, 3):
        fetch(leader, follower, 10, 4)
    produce(leader)
    fetch(leader, 2, 11, 4)
    assert leader.log.high_watermark == 10
    assert leader.become_leader(state(epoch=4, isr=(1, 2), partition_epoch=1), 101, NOW_MS)
    assert leader.log.high_watermark == 11
    fetch(leader, 3, 11, 4)
    produce(leader)
    fetch(leader, 2, 12, 4)
    assert leader.log.high_watermark == 11, (
        "it is back, and would never catch up with a leader that did not wait (HW-6)"
    )
