"""What a leader knows of its followers. The table R-W-R is in tests/scenarios/follower_clock.txt."""

import pytest

from leader.follower_state import FollowerState
from tests.leader.replicas import NOW_MS, fetch, leader_of, log_of, state

LIMIT_MS = 3000


def test_never_is_before_any_monotonic_time():
    """A machine that has just booted has a monotonic clock below the lag limit."""
    assert not FollowerState().is_caught_up(5, 10, LIMIT_MS)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "changes"),
    [(11, 0, {}), (10, 3, {}), (10, 0, {"current_leader_epoch": 9})],
    ids=["diverging", "out of range", "fenced"],
)
def test_only_an_accepted_read_is_progress_st_9(tmp_path, offset, last_epoch, changes):
    leader = leader_of(log_of(tmp_path, "0:0-9"), state(epoch=1))
    before = leader.replicas[2]
    fetch(leader, 2, offset, last_epoch, now_ms=NOW_MS + 5, **changes)
    assert leader.replicas[2] is before


def test_a_follower_that_truncated_goes_back_st_7(tmp_path):
    leader = leader_of(log_of(tmp_path, "0:0-9"), state())
    fetch(leader, 2, 10, 0)
    fetch(leader, 2, 4, 0)
    assert leader.replicas[2].log_end_offset == 4
