"""Up to where a leader commits. The table R-W-H is in tests/scenarios/high_watermark.txt."""

from dataclasses import replace

import pytest

from replog.errors import ErrorCode
from tests.leader.replicas import LAG_MS, NOW_MS, fetch, leader_of, log_of, produce, proposed, state


def test_nothing_commits_while_there_are_eligible_leaders_isr_16(tmp_path):
    """The controller has raised the minimum and this broker has not heard of it: its answer tells all the same."""
    leader = leader_of(log_of(tmp_path, min_insync_replicas=1), state(isr=(1, 2)))
    fetch(leader, 2, 0)
    produce(leader, acks=1)
    later_ms = NOW_MS + LAG_MS + 1  # 2 is waited for no longer
    leader.check_isr(later_ms)
    proposal = proposed(leader)
    answer = replace(state(isr=(1,), partition_epoch=1), elr=(2,))
    assert not leader.on_alter_partition_result(proposal, ErrorCode.NONE, answer, later_ms)
    assert (leader.state.isr, leader.log.high_watermark) == ({1}, 0)
    assert leader.become_leader(state(isr=(1,), partition_epoch=2), 101, later_ms), "forgotten"
    assert leader.log.high_watermark == 1


def test_the_answer_that_forgets_the_eligible_leaders_lets_it_commit_isr_16(tmp_path):
    """Its record may come later, and is known already then."""
    leader = leader_of(log_of(tmp_path, min_insync_replicas=2), replace(state(isr=(1,)), elr=(2,)))
    produce(leader, acks=1)
    fetch(leader, 2, 1, 0)
    answer = state(isr=(1, 2), partition_epoch=1)
    assert leader.on_alter_partition_result(proposed(leader), ErrorCode.NONE, answer, NOW_MS)
    assert leader.log.high_watermark == 1


def test_metadata_with_eligible_leaders_commits_nothing_either_isr_16(tmp_path):
    leader = leader_of(log_of(tmp_path, min_insync_replicas=1), replace(state(isr=(1,)), elr=(2,)))
    produce(leader, acks=1)
    assert leader.log.high_watermark == 0


@pytest.mark.parametrize(("flush_messages", "flushed"), [(1 << 62, 0), (1, 1)])
def test_committed_is_in_memory_and_on_disk_only_if_asked_for(tmp_path, flush_messages, flushed):
    """HW-8."""
    leader = leader_of(log_of(tmp_path, flush_messages=flush_messages), state(isr=(1, 2)))
    produce(leader)
    fetch(leader, 2, 1, 0)
    assert (leader.log.high_watermark, leader.log.recovery_point) == (1, flushed)
