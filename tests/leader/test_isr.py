"""Who joins and leaves the in-sync set, and what answers do to it. The table R-W-I is in tests/scenarios/isr.txt."""

from pathlib import Path

import pytest

from leader.isr import MAX_PROPOSALS, AfterRefusal, AlterPartitionQueue, IsrProposal, after_refusal
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.topic import TopicPartition
from tests.leader.replicas import LAG_MS, NOW_MS, TP, Brokers, append_record, fetch, leader_of, log_of, proposed, state

OTHER = TopicPartition("t", 1)
EPOCH = 4


def leader_at_60(directory: Path, brokers: Brokers | None = None) -> PartitionLeader:
    """High watermark 50, epoch start 60, ISR {1}, partition epoch 7; min ISR 2 keeps the high watermark there."""
    log = log_of(directory, "0:0-59", high_watermark=50, min_insync_replicas=2)
    return leader_of(log, state(isr=(1,), epoch=EPOCH, partition_epoch=7), brokers)


@pytest.fixture
def leader(tmp_path: Path) -> PartitionLeader:
    return leader_at_60(tmp_path)


def expanding(leader: PartitionLeader) -> IsrProposal:
    """R-W-I2: 2 has reached the epoch's start; its addition is proposed."""
    fetch(leader, 2, 60, 0)
    proposal = proposed(leader)
    assert leader.take_proposal() is None, "a proposal is submitted once"
    return proposal


def test_the_epoch_of_a_member_that_has_not_fetched_yet_is_the_registered_one_isr_14(tmp_path):
    log = log_of(tmp_path, "0:0-59", high_watermark=50)
    leader = leader_of(log, state(isr=(1, 3), epoch=EPOCH, partition_epoch=7), Brokers(1, 2, 3))
    fetch(leader, 2, 60, 0)
    assert proposed(leader).isr == ((1, 101), (2, 102), (3, 103))


@pytest.mark.parametrize("changes", [{"fenced": True}, {"in_controlled_shutdown": True}, {"broker_epoch": 90}], ids=str)
def test_a_replica_that_may_not_join_is_not_proposed_isr_2(tmp_path, changes):
    brokers = Brokers(1, 2, 3)
    brokers.change(2, **changes)
    leader = leader_at_60(tmp_path, brokers)
    fetch(leader, 2, 60, 0)
    assert leader.take_proposal() is None


def test_a_replica_that_ends_where_the_leader_begins_hides_what_it_has_before_it_joins_ft_23(tmp_path):
    """Its record 44 may be another one than the leader had there: the leader has deleted its own."""
    log = log_of(tmp_path)
    log.truncate_fully_and_start_at(45)
    leader = leader_of(log, state(isr=(1,), epoch=2))
    fetch(leader, 2, 45, 0, log_start_offset=30)
    assert leader.take_proposal() is None
    fetch(leader, 2, 45, 0, log_start_offset=45)
    assert [member for member, _ in proposed(leader).isr] == [1, 2]


@pytest.mark.parametrize(
    ("action", "errors"),
    [
        (AfterRefusal.REVERT, "INELIGIBLE_REPLICA OPERATION_NOT_ATTEMPTED NOT_ENOUGH_REPLICAS"),
        (AfterRefusal.REVERT, "THROTTLING_QUOTA_EXCEEDED"),
        (AfterRefusal.WAIT, "INVALID_UPDATE_VERSION FENCED_LEADER_EPOCH INVALID_REQUEST NEW_LEADER_ELECTED"),
        (AfterRefusal.WAIT, "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID"),
        (AfterRefusal.RESUBMIT, "NETWORK_EXCEPTION REQUEST_TIMED_OUT NOT_CONTROLLER"),
    ],
)
def test_what_each_refusal_does_to_a_proposal_isr_9(action, errors):
    """What the three are is told by R-W-I3, R-W-I4 and R-W-I6."""
    for error in errors.split():
        assert after_refusal(ErrorCode[error]) is action, error


def test_a_member_that_is_no_replica_leaves(tmp_path):
    leader = leader_of(log_of(tmp_path, "0:0-9"), state(isr=(1, 2, 3), replicas=(1, 2)))
    fetch(leader, 2, 10, 0)
    leader.check_isr(NOW_MS)
    assert proposed(leader).isr == ((1, 101), (2, 102))


def test_the_record_of_the_last_accepted_change_does_not_reset_the_next_proposal(tmp_path):
    """The answer to a proposal and its metadata record come on different ways. Between them the next proposal may
    have been accepted, so that the new member must be waited for although the late record does not name it."""
    leader = leader_of(log_of(tmp_path, "0:0-9"), state(isr=(1, 2)))
    fetch(leader, 2, 10, 0)
    append_record(leader.log, 0)
    leader.check_isr(NOW_MS + LAG_MS + 1)
    shrink = proposed(leader)
    alone = state(isr=(1,), partition_epoch=1)
    leader.on_alter_partition_result(shrink, ErrorCode.NONE, alone, NOW_MS + LAG_MS + 1)
    fetch(leader, 3, 11, 0, now_ms=NOW_MS + LAG_MS + 2)
    assert leader.state.maximal_isr == {1, 3}
    assert not leader.become_leader(alone, 101, NOW_MS + LAG_MS + 3)
    assert leader.state.maximal_isr == {1, 3}
    expand = proposed(leader)
    both = state(isr=(1, 3), partition_epoch=2)
    leader.on_alter_partition_result(expand, ErrorCode.NONE, both, NOW_MS + LAG_MS + 4)
    assert leader.state.isr == {1, 3}


@pytest.mark.parametrize("answer", [{"epoch": EPOCH + 1, "partition_epoch": 8}, {"partition_epoch": 6}], ids=str)
def test_an_acceptance_out_of_another_time_stays_pending_isr_9(leader, answer):
    proposal = expanding(leader)
    accepted = state(isr=(1, 2), **{"epoch": EPOCH, **answer})
    assert not leader.on_alter_partition_result(proposal, ErrorCode.NONE, accepted, NOW_MS)
    assert leader.state.maximal_isr == {1, 2}
    assert (leader.state.isr, leader.partition_epoch) == ({1}, 7)


def test_an_acceptance_with_the_same_partition_epoch_commits_isr_11(leader):
    proposal = expanding(leader)
    leader.on_alter_partition_result(
        proposal, ErrorCode.NONE, state(isr=(1, 2), epoch=EPOCH, partition_epoch=7), NOW_MS
    )
    assert (leader.state.isr, leader.partition_epoch) == ({1, 2}, 7)


# The queue


def proposal() -> IsrProposal:
    return IsrProposal(EPOCH, 7, ((1, 101),))


def test_what_an_answer_leaves_out_stays_queued():
    queue = AlterPartitionQueue()
    first, second, late = proposal(), proposal(), proposal()
    queue.submit(TP, first)
    queue.submit(OTHER, second)
    queue.next_batch()
    unasked = TopicPartition("t", 9)
    queue.submit(unasked, late)
    assert queue.on_answer([TP, unasked]) == {TP: first}
    assert queue.next_batch() == {OTHER: second, unasked: late}


def test_a_request_has_a_bounded_number_of_proposals_those_that_came_first():
    queue = AlterPartitionQueue()
    names = [TopicPartition("t", partition) for partition in range(MAX_PROPOSALS + 1)]
    for tp in names:
        queue.submit(tp, proposal())
    first = queue.next_batch()
    assert first is not None
    assert list(first) == names[:-1]
    queue.on_answer(first)
    assert list(queue.next_batch() or ()) == names[-1:]


def test_a_proposal_and_a_leader_say_where_each_replica_is(leader):
    """For the log: 2 has fetched up to 60, of 3 nothing is known in this leadership."""
    assert leader.log_ends == {1: 60, 2: -1, 3: -1}
    assert expanding(leader).log_ends == {1: 60, 2: 60, 3: -1}
