"""W-H: up to where a leader commits (HW-2 to HW-5)."""

from dataclasses import replace
from pathlib import Path

import pytest

from leader.follower_state import FollowerState
from leader.high_watermark import high_watermark_candidate
from leader.isr import Committed, IsrProposal, IsrState, PendingExpand, PendingShrink
from replog.errors import ErrorCode
from tests.leader.replicas import LAG_MS, NOW_MS, Brokers, fetch, leader_of, log_of, produce, state

NOTHING = IsrProposal(0, 0, ())


def committed(*isr: int) -> Committed:
    return Committed(frozenset(isr))


EXPANDING = PendingExpand(committed(1, 2), 3, NOTHING)
SHRINKING = PendingShrink(committed(1, 2, 3), frozenset({3}), NOTHING)
UNKNOWN = -1

# id, log end and age in s of 2 and of 3, ISR, min ISR, result; the leader's log end is 30, its high watermark 20
CASES = [
    ("W-H1", (25, 1), (28, 0.5), committed(1, 2, 3), 1, 25),
    ("W-H2", (25, 1), (10, 50), committed(1, 2), 1, 25),
    ("W-H3", (30, 0.1), (22, 1), committed(1, 2), 1, 22),
    ("W-H5", (30, 0.1), (22, 99), EXPANDING, 1, 22),
    ("W-H6", (30, 0.1), (22, 99), SHRINKING, 1, 22),
    ("W-H7", (30, 0.1), (22, 99), committed(1, 2), 1, 30),
    ("W-H8", (30, 0), (30, 0), committed(1), 2, 20),
    ("W-H9", (UNKNOWN, 0), (30, 0), committed(1, 2, 3), 1, 20),
    ("W-H10", (12, 1), (30, 0), committed(1, 2, 3), 1, 20),
    ("W-H11", (12, 50), (3, 50), committed(1), 1, 30),
    ("W-H12", (30, 0), (30, 0), committed(1, 2, 3), 5, 30),
    ("W-H13", (30, 0), (30, 99), committed(1, 2), 5, 20),
]


def result(
    two: tuple[int, float], three: tuple[int, float], isr: IsrState, min_isr: int, *, eligible: bool = True
) -> int:
    followers = {
        replica_id: FollowerState(log_end_offset=log_end, last_caught_up_ms=NOW_MS - int(age_s * 1000))
        for replica_id, (log_end, age_s) in ((2, two), (3, three))
    }
    candidate = high_watermark_candidate(
        30,
        followers,
        isr,
        min_insync_replicas=min(min_isr, 3),
        is_eligible=lambda _, __: eligible,
        now_ms=NOW_MS,
        max_lag_ms=LAG_MS,
    )
    return 20 if candidate is None else max(20, candidate)


@pytest.mark.parametrize(
    ("two", "three", "isr", "min_isr", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_high_watermark_is_the_least_log_end_it_must_wait_for(
    two: tuple[int, float], three: tuple[int, float], isr: IsrState, min_isr: int, expected: int
) -> None:
    assert result(two, three, isr, min_isr) == expected


def test_a_replica_that_may_not_join_is_not_waited_for_w_h4() -> None:
    assert result((30, 0.1), (22, 1), committed(1, 2), 1, eligible=False) == 30


def test_the_minimum_is_never_more_than_there_are_replicas_w_h12_w_p10(tmp_path: Path) -> None:
    three = leader_of(log_of(tmp_path / "three", min_insync_replicas=5), state())
    assert three.min_insync_replicas == 3
    one = leader_of(log_of(tmp_path / "one", min_insync_replicas=2), state(isr=(1,), replicas=(1,)))
    assert produce(one).high_watermark_advanced
    assert one.high_watermark == 1


def test_a_fenced_replica_on_its_way_back_does_not_stall_the_leader_w_h4(tmp_path: Path) -> None:
    brokers = Brokers(1, 2, 3)
    leader = leader_of(log_of(tmp_path, "0:0-4"), state(isr=(1, 2)), brokers)
    brokers.change(3, fenced=True)
    fetch(leader, 3, 5, 0)
    produce(leader, acks=1)
    assert fetch(leader, 2, 6, 0).high_watermark_advanced
    assert leader.high_watermark == 6


def test_a_dead_joiner_is_let_go_by_the_periodic_check(tmp_path: Path) -> None:
    """Nobody fetches or appends any more, so the clock alone must release what waits for the replica."""
    leader = leader_of(log_of(tmp_path, "0:0-4"), state(isr=(1, 2)))
    fetch(leader, 2, 5, 0)
    fetch(leader, 3, 5, 0)  # caught up, so it is proposed
    proposal = leader.take_proposal()
    assert proposal is not None
    leader.on_alter_partition_result(proposal, ErrorCode.INELIGIBLE_REPLICA, None, NOW_MS)
    produce(leader, acks=1)
    assert not fetch(leader, 2, 6, 0, now_ms=NOW_MS + 1).high_watermark_advanced
    assert not leader.check_isr(NOW_MS + LAG_MS)
    fetch(leader, 2, 6, 0, now_ms=NOW_MS + LAG_MS)
    assert leader.check_isr(NOW_MS + LAG_MS + 1)
    assert leader.high_watermark == 6


def test_a_lower_minimum_lets_the_high_watermark_advance_at_once_hw_2(tmp_path: Path) -> None:
    log = log_of(tmp_path, min_insync_replicas=2)
    leader = leader_of(log, state(isr=(1,)))
    produce(leader, acks=1)
    assert leader.high_watermark == 0
    log.config = log.config.model_copy(update={"min_insync_replicas": 1})
    assert leader.advance_high_watermark(NOW_MS)
    assert leader.high_watermark == 1


def test_nothing_commits_while_there_are_eligible_leaders_isr_16(tmp_path: Path) -> None:
    """The controller has raised the minimum and this broker has not heard of it: its answer tells all the same."""
    leader = leader_of(log_of(tmp_path, min_insync_replicas=1), state(isr=(1, 2)))
    fetch(leader, 2, 0)
    produce(leader, acks=1)
    leader.check_isr(NOW_MS + LAG_MS + 1)
    proposal = leader.take_proposal()
    assert proposal is not None
    answer = replace(state(isr=(1,), partition_epoch=1), elr=(2,))
    assert not leader.on_alter_partition_result(proposal, ErrorCode.NONE, answer, NOW_MS)
    assert (leader.isr, leader.high_watermark) == ({1}, 0)
    assert leader.become_leader(state(isr=(1,), partition_epoch=2), 101, NOW_MS + LAG_MS + 1), "forgotten"
    assert leader.high_watermark == 1


def test_metadata_with_eligible_leaders_commits_nothing_either_isr_16(tmp_path: Path) -> None:
    leader = leader_of(log_of(tmp_path, min_insync_replicas=1), replace(state(isr=(1,)), elr=(2,)))
    produce(leader, acks=1)
    assert leader.high_watermark == 0
