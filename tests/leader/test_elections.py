"""Becoming leader (2.1, ST-11 to ST-15), and deletions that wait for every replica (FT-23)."""

import pytest

from leader.delayed_produce import DelayedDeleteRecords, DeleteRecordsResult
from leader.isr import Committed
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode, ReplogError
from replog.log.epochs import LeaderEpochCache
from replog.log.errors import LogStorageError
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT
from replog.purgatory.purgatory import Purgatory
from replog.topic import TopicPartition
from tests.leader.replicas import NOW_MS, TP, fetch, leader_of, log_of, produce, state

LATER_MS = NOW_MS + 1000


def test_the_epoch_start_is_durable_before_anything_is_served_st_13(tmp_path):
    leader = leader_of(log_of(tmp_path, "0:0-4"), state(epoch=2))
    assert leader.leader_epoch_start_offset == 5
    assert LeaderEpochCache.load(tmp_path / LEADER_EPOCH_CHECKPOINT).entries == ((0, 0), (2, 5))


def test_nothing_is_appended_between_the_note_of_an_epoch_and_its_beginning_st_13(tmp_path):
    """The next epoch's start is noted where the log ends, and made durable before the leader takes the epoch up."""
    leader = leader_of(log_of(tmp_path, "1:0-4"), state(epoch=1))
    leader.log.assign_epoch_start(2, save=False)
    with pytest.raises(ReplogError, match="t-0 is about to begin another epoch; retry") as refused:
        produce(leader)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.log.log_end_offset == 5


def test_older_metadata_is_ignored(tmp_path):
    leader = leader_of(log_of(tmp_path, "0:0-4"), state(epoch=3, partition_epoch=7))
    assert not leader.become_leader(state(epoch=3, partition_epoch=6, isr=(1,)), 101, LATER_MS)
    assert (leader.state.isr, leader.partition_epoch, leader.log.high_watermark) == ({1, 2, 3}, 7, 0)


def test_a_change_of_members_keeps_what_is_known_of_followers_st_12(tmp_path):
    leader = leader_of(log_of(tmp_path, "0:0-4"), state())
    produce(leader)
    fetch(leader, 2, 6, 0)
    known = leader.replicas[2]
    leader.become_leader(state(partition_epoch=1, isr=(1, 2), replicas=(1, 2, 4)), 101, LATER_MS)
    assert leader.replicas[2] is known
    assert set(leader.replicas) == {2, 4}
    assert leader.leader_epoch_start_offset == 5, "the epoch did not begin again"


def test_nothing_changes_when_the_epoch_cannot_be_written(tmp_path):
    leader = leader_of(log_of(tmp_path, "0:0-4"), state())
    leader.log.abandon()
    with pytest.raises(LogStorageError):
        leader.become_leader(state(epoch=1, partition_epoch=1, isr=(1,)), 101, LATER_MS)
    assert (leader.leader_epoch, leader.partition_epoch) == (0, 0)
    assert leader.state == Committed(frozenset({1, 2, 3}))


# DeleteRecords

OTHER = TopicPartition("t", 1)


def test_a_deletion_is_done_when_every_live_replica_has_deleted(tmp_path):
    leader = leader_of(log_of(tmp_path, "0:0-9", high_watermark=10), state(isr=(1, 2), replicas=(1, 2)))
    leaders: dict[TopicPartition, PartitionLeader | ErrorCode] = {
        TP: leader,
        OTHER: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    answers: list[dict[TopicPartition, DeleteRecordsResult]] = []
    purgatory: Purgatory[TopicPartition] = Purgatory()
    operation = DelayedDeleteRecords(
        {TP: leader.delete_records(5), OTHER: 3}, leaders.__getitem__, 1000, answers.append
    )
    assert not purgatory.complete_or_watch(operation, [TP, OTHER], NOW_MS)
    fetch(leader, 2, 10, 0, log_start_offset=4)
    assert purgatory.check([TP]) == 0
    fetch(leader, 2, 10, 0, log_start_offset=6)
    assert purgatory.check([TP]) == 1
    assert answers == [
        {
            TP: DeleteRecordsResult(ErrorCode.NONE, 5),
            OTHER: DeleteRecordsResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        }
    ]


def test_a_deletion_that_a_replica_does_not_follow_times_out(tmp_path):
    leader = leader_of(log_of(tmp_path, "0:0-9", high_watermark=10), state())
    answers: list[dict[TopicPartition, DeleteRecordsResult]] = []
    purgatory: Purgatory[TopicPartition] = Purgatory()
    operation = DelayedDeleteRecords({TP: 5}, lambda _: leader, 1000, answers.append)
    purgatory.complete_or_watch(operation, [TP], NOW_MS)
    assert purgatory.expire(NOW_MS + 1000) == 1
    assert answers == [{TP: DeleteRecordsResult(ErrorCode.REQUEST_TIMED_OUT, -1)}]
