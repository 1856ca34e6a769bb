"""W-P: appends, and produce requests that wait for the high watermark (PR-1 to PR-15). RF 3, min ISR 2."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leader.delayed_produce import DelayedProduce, PendingProduce
from leader.partition import LeaderAppend, PartitionLeader
from replog.errors import ErrorCode, ReplogError
from replog.purgatory.purgatory import Purgatory
from replog.topic import TopicPartition
from tests.leader.replicas import LAG_MS, NOW_MS, TP, append_record, fetch, leader_of, log_of, produce, state

OTHER = TopicPartition("t", 1)
TIMEOUT_MS = 30_000


class Request:
    """A parked produce request on the partitions of one broker."""

    def __init__(self, leaders: dict[TopicPartition, PartitionLeader | ErrorCode]) -> None:
        self.leaders = leaders
        self.answers: list[dict[int, ErrorCode]] = []
        self.purgatory: Purgatory[TopicPartition] = Purgatory()

    def park(self, *appends: tuple[TopicPartition, LeaderAppend], at: Callable[[int], int] = lambda i: i) -> bool:
        pending = {
            at(index): PendingProduce(tp, append.required_offset, append.leader_epoch)
            for index, (tp, append) in enumerate(appends)
        }
        operation = DelayedProduce(pending, self.leaders.__getitem__, TIMEOUT_MS, self.answers.append)
        return self.purgatory.try_complete_else_watch(operation, [tp for tp, _ in appends], NOW_MS)


def leader_at_9(directory: Path, isr: tuple[int, ...], epoch: int = 0) -> PartitionLeader:
    return leader_of(log_of(directory, "0:0-8", high_watermark=9, min_insync_replicas=2), state(isr=isr, epoch=epoch))


@pytest.fixture
def leader(tmp_path: Path) -> PartitionLeader:
    """ISR {1, 2}, both at 9; 3 has been stale for long."""
    leader = leader_at_9(tmp_path / "log", (1, 2))
    fetch(leader, 2, 9, 0)
    return leader


def shrink_to_leader(leader: PartitionLeader) -> None:
    """2 dies; the controller takes it out of the ISR."""
    leader.check_isr(NOW_MS + LAG_MS + 1)
    proposal = leader.take_proposal()
    assert proposal is not None
    leader.on_alter_partition_result(proposal, ErrorCode.NONE, state(isr=(1,), partition_epoch=1), NOW_MS + LAG_MS + 1)
    assert leader.isr == {1}


def test_acks_all_is_refused_below_the_minimum_and_nothing_is_appended_w_p1(tmp_path: Path) -> None:
    leader = leader_at_9(tmp_path, (1,))
    with pytest.raises(ReplogError, match=r"NOT_ENOUGH_REPLICAS: .*\[1\].* 2 "):
        produce(leader, acks=-1)
    assert leader.log.log_end_offset == 9


def test_acks_1_is_taken_below_the_minimum_but_not_committed_w_p2(tmp_path: Path) -> None:
    leader = leader_at_9(tmp_path, (1,))
    append = produce(leader, acks=1)
    assert (leader.log.log_end_offset, leader.high_watermark, append.high_watermark_advanced) == (10, 9, False)


def test_acks_all_is_answered_when_the_high_watermark_is_there_w_p3(leader: PartitionLeader) -> None:
    request = Request({TP: leader})
    append = produce(leader)
    assert append.required_offset == 10
    assert not request.park((TP, append))
    assert fetch(leader, 2, 10, 0).high_watermark_advanced
    assert request.purgatory.check_and_complete(TP) == 1
    assert request.answers == [{0: ErrorCode.NONE}]


def test_a_record_that_is_not_committed_in_time_stays_in_the_log_w_p4(leader: PartitionLeader) -> None:
    request = Request({TP: leader})
    request.park((TP, produce(leader)))
    shrink_to_leader(leader)
    assert leader.high_watermark == 9, "too few are in sync (HW-2)"
    assert request.purgatory.check_and_complete(TP) == 0
    assert request.purgatory.expire(NOW_MS + TIMEOUT_MS) == 1
    assert request.answers == [{0: ErrorCode.REQUEST_TIMED_OUT}]
    assert leader.log.log_end_offset == 10


def test_a_shrink_after_the_commit_is_told_w_p5(leader: PartitionLeader) -> None:
    request = Request({TP: leader})
    request.park((TP, produce(leader)))
    fetch(leader, 2, 10, 0)
    append_record(leader.log, 0)  # so that 2 is behind
    shrink_to_leader(leader)
    request.purgatory.check_and_complete(TP)
    assert request.answers == [{0: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}]


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)
def test_a_partition_that_is_not_led_here_any_longer_answers_at_once_w_p6(
    leader: PartitionLeader, error: ErrorCode
) -> None:
    request = Request({TP: leader})
    request.park((TP, produce(leader)))
    request.leaders[TP] = error
    assert request.purgatory.check_and_complete(TP) == 1
    assert request.answers == [{0: error}]


def test_the_answer_waits_for_the_slowest_partition_w_p7(leader: PartitionLeader, tmp_path: Path) -> None:
    """Position 0 failed before it was parked and is not pending here; the others answer together."""
    other = leader_at_9(tmp_path / "other", (1, 2))
    request = Request({TP: leader, OTHER: other})
    request.park((TP, produce(leader)), (OTHER, produce(other)), at=lambda index: index + 1)
    request.leaders[TP] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert request.purgatory.check_and_complete(TP) == 0
    request.leaders[TP] = leader  # what has settled stays settled
    fetch(other, 2, 10, 0)
    request.purgatory.check_and_complete(OTHER)
    assert request.answers == [{1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: ErrorCode.NONE}]


def test_one_partition_twice_in_a_request_waits_for_both(leader: PartitionLeader) -> None:
    request = Request({TP: leader})
    request.park((TP, produce(leader)), (TP, produce(leader)))
    fetch(leader, 2, 10, 0)
    assert request.purgatory.check_and_complete(TP) == 0
    fetch(leader, 2, 11, 0)
    assert request.purgatory.check_and_complete(TP) == 1
    assert request.answers == [{0: ErrorCode.NONE, 1: ErrorCode.NONE}]


def test_a_request_with_nothing_pending_is_answered_at_once_w_p8() -> None:
    request = Request({})
    assert request.park()
    assert request.answers == [{}]


def test_a_single_replica_commits_at_once_w_p10(tmp_path: Path) -> None:
    leader = leader_of(log_of(tmp_path, min_insync_replicas=2), state(isr=(1,), replicas=(1,)))
    request = Request({TP: leader})
    append = produce(leader)
    assert append.high_watermark_advanced
    assert request.park((TP, append))
    assert request.answers == [{0: ErrorCode.NONE}]


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused_w_p11(leader: PartitionLeader, acks: int) -> None:
    with pytest.raises(ReplogError, match="INVALID_REQUIRED_ACKS"):
        produce(leader, acks=acks)
    assert leader.log.log_end_offset == 9


def test_a_regained_leadership_does_not_acknowledge_foreign_records_w_p12(tmp_path: Path) -> None:
    log = log_of(tmp_path, "0:0-8", high_watermark=9, min_insync_replicas=2)
    leader = leader_of(log, state(isr=(1, 2), epoch=4))
    request = Request({TP: leader})
    append = produce(leader)
    request.park((TP, append))
    log.truncate_to(9)  # epoch 5: another leader, whose records replace ours
    for _ in range(3):
        append_record(log, 5)
    log.update_high_watermark(12)
    again = leader_of(log, state(isr=(1, 2), epoch=6, partition_epoch=2))
    request.leaders[TP] = again
    assert again.high_watermark >= append.required_offset
    assert request.purgatory.check_and_complete(TP) == 1
    assert request.answers == [{0: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


def test_a_pending_expansion_counts_for_the_second_check_pr_14(tmp_path: Path) -> None:
    leader = leader_at_9(tmp_path, (1, 2))
    request = Request({TP: leader})
    fetch(leader, 2, 9, 0)
    append = produce(leader)
    fetch(leader, 2, 10, 0)
    shrink_after_commit = state(isr=(1,), partition_epoch=1)
    leader.become_leader(shrink_after_commit, 101, NOW_MS)
    fetch(leader, 3, 10, 0)
    assert (leader.isr, leader.maximal_isr) == ({1}, {1, 3})
    assert request.park((TP, append))
    assert request.answers == [{0: ErrorCode.NONE}]
