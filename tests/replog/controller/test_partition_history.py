"""What is kept of the past of partitions, and how much."""

import pytest

from replog.controller import partition_history
from replog.controller.partition_history import OF_EACH, PartitionChange, PartitionHistory
from replog.metadata.values import PartitionState
from replog.topic import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
STATE = PartitionState(replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=0, partition_epoch=0)


def change(version: int, tp: TopicPartition = A) -> PartitionChange:
    return PartitionChange(version, version * 1000, tp, "asked for", STATE, STATE)


def versions(history: PartitionHistory, after: int = 0, limit: int = 1000) -> list[int]:
    return [change.version for change in history.after(after, limit)]


def test_the_last_changes_of_each_partition_are_kept():
    history = PartitionHistory()
    history.add(change(1, B))
    for version in range(2, 2 + OF_EACH + 5):
        history.add(change(version))
    assert versions(history) == [1, *range(7, 7 + OF_EACH)], "one that flaps does not push out the others"


def test_of_all_partitions_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(partition_history, "OF_ALL", 3)
    history = PartitionHistory()
    for version in range(1, 7):
        history.add(change(version, TopicPartition("t", version)))
    assert versions(history) == [4, 5, 6]
    history.add(change(7, TopicPartition("t", 1)))
    assert versions(history) == [5, 6, 7]


def test_changes_are_read_on_from_a_version_some_at_a_time():
    history = PartitionHistory()
    for version in (3, 5, 8, 9):
        history.add(change(version))
    assert versions(history, limit=2) == [3, 5]
    assert versions(history, after=5, limit=2) == [8, 9]
    assert versions(history, after=6) == [8, 9]
    assert versions(history, after=9) == []


def test_what_is_deleted_is_forgotten():
    history = PartitionHistory()
    for version in range(1, 5):
        history.add(change(version, (A, B)[version % 2]))
    history.forget([A, TopicPartition("never changed", 0)])
    assert versions(history) == [1, 3]
    history.forget([B])
    assert versions(history) == []
