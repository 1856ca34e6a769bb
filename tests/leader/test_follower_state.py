"""W-R: when a follower counts as caught up (ST-7, ST-8, ST-11)."""

from pathlib import Path

import pytest

from leader.follower_state import NEVER_MS, FollowerState
from replog.errors import ErrorCode
from tests.leader.replicas import NOW_MS, Brokers, fetch, leader_of, log_of, state

LIMIT_MS = 3000
BASE_MS = 1_000_000

# time, fetch offset, leader's log end, last caught up, caught up now
CLOCK = [
    ("W-R1", 1000, 40, 100, None, False),
    ("W-R2", 2000, 100, 160, 1000, True),
    ("W-R3", 3000, 160, 160, 3000, True),
    ("W-R4", 4000, 160, 200, 3000, True),
    ("W-R5", 5000, 190, 240, 3000, True),
    ("W-R6", 9000, 200, 260, 3000, False),
    ("W-R7", 9500, 300, 300, 9500, True),
]


def after(rows: int) -> FollowerState:
    follower = FollowerState()
    for _, time_ms, offset, leader_end, *_ in CLOCK[:rows]:
        follower = follower.after_fetch(
            fetch_offset=offset,
            log_start_offset=0,
            leader_end_offset=leader_end,
            broker_epoch=1,
            now_ms=BASE_MS + time_ms,
        )
    return follower


@pytest.mark.parametrize("row", range(len(CLOCK)), ids=[row[0] for row in CLOCK])
def test_the_clock_of_a_follower(row: int) -> None:
    _, time_ms, offset, leader_end, caught_up_ms, caught_up = CLOCK[row]
    follower = after(row + 1)
    assert follower.last_caught_up_ms == (NEVER_MS if caught_up_ms is None else BASE_MS + caught_up_ms)
    assert follower.is_caught_up(leader_end, BASE_MS + time_ms, LIMIT_MS) is caught_up
    assert follower.log_end_offset == offset


def test_an_idle_follower_that_is_level_stays_caught_up_w_r8() -> None:
    follower = after(7)
    assert follower.is_caught_up(300, BASE_MS + 60_000, LIMIT_MS)
    assert not follower.is_caught_up(301, BASE_MS + 60_000, LIMIT_MS)


def test_a_leader_that_is_elected_again_keeps_what_it_knows_w_r9() -> None:
    now_ms = BASE_MS + 60_000
    follower = after(7).after_election(in_isr=True, was_leader=True, epoch_start_offset=300, now_ms=now_ms)
    assert (follower.last_caught_up_ms, follower.last_fetch_ms) == (now_ms, now_ms)
    assert (follower.log_end_offset, follower.last_fetch_leader_end_offset, follower.broker_epoch) == (300, 300, 1)


@pytest.mark.parametrize("in_isr", [False, True])
def test_a_new_leader_knows_nothing_but_grants_the_isr_a_lag_period_w_r10(in_isr: bool) -> None:
    now_ms = BASE_MS + 60_000
    follower = after(7).after_election(in_isr=in_isr, was_leader=False, epoch_start_offset=300, now_ms=now_ms)
    assert (follower.log_end_offset, follower.log_start_offset, follower.broker_epoch) == (-1, -1, -1)
    assert follower.is_caught_up(300, now_ms + LIMIT_MS, LIMIT_MS) is in_isr


def test_never_is_before_any_monotonic_time() -> None:
    """A machine that has just booted has a monotonic clock below the lag limit."""
    assert not FollowerState().is_caught_up(5, 10, LIMIT_MS)


def test_a_fetch_of_an_earlier_incarnation_changes_nothing_w_r11(tmp_path: Path) -> None:
    brokers = Brokers(1, 2, 3)
    leader = leader_of(log_of(tmp_path, "0:0-9"), state(), brokers)
    fetch(leader, 2, 5, 0, broker_epoch=41)  # metadata does not know 41 yet
    brokers.change(2, broker_epoch=45)
    before = leader.replicas[2]
    assert fetch(leader, 2, 10, 0, broker_epoch=41).answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.replicas[2] is before
    brokers.change(2, fenced=True)  # the new incarnation need not be up for the old one to be a zombie
    assert fetch(leader, 2, 10, 0, broker_epoch=41).answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("offset", "last_epoch", "changes"),
    [(11, 0, {}), (10, 3, {}), (10, 0, {"current_leader_epoch": 9}), (10, 0, {"record_progress": False})],
    ids=["diverging", "out of range", "fenced", "second read of a parked fetch"],
)
def test_only_an_accepted_first_read_is_progress_st_9(
    tmp_path: Path, offset: int, last_epoch: int, changes: dict[str, int]
) -> None:
    leader = leader_of(log_of(tmp_path, "0:0-9"), state(epoch=1))
    before = leader.replicas[2]
    fetch(leader, 2, offset, last_epoch, now_ms=NOW_MS + 5, **changes)
    assert leader.replicas[2] is before


def test_a_follower_that_truncated_goes_back_st_7(tmp_path: Path) -> None:
    leader = leader_of(log_of(tmp_path, "0:0-9"), state())
    fetch(leader, 2, 10, 0)
    fetch(leader, 2, 4, 0)
    assert leader.replicas[2].log_end_offset == 4
