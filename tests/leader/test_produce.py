"""Appends, and produce requests that wait. The table R-W-P is in tests/scenarios/produce.txt."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leader.delayed_produce import DelayedProduce, PendingProduce
from leader.partition_leader import LeaderAppend, PartitionLeader
from replog.errors import ErrorCode
from replog.purgatory.purgatory import Purgatory
from replog.topic import TopicPartition
from tests.leader.replicas import NOW_MS, TP, fetch, leader_of, log_of, produce, state

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
        return self.purgatory.complete_or_watch(operation, [tp for tp, _ in appends], NOW_MS)


def leader_at_9(directory: Path, isr: tuple[int, ...], epoch: int = 0) -> PartitionLeader:
    return leader_of(log_of(directory, "0:0-8", high_watermark=9, min_insync_replicas=2), state(isr=isr, epoch=epoch))


@pytest.fixture
def leader(tmp_path: Path) -> PartitionLeader:
    """ISR {1, 2}, both at 9; 3 has been stale for long."""
    leader = leader_at_9(tmp_path / "log", (1, 2))
    fetch(leader, 2, 9, 0)
    return leader


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)
def test_a_partition_that_is_not_led_here_any_longer_answers_at_once(leader, error):
    """R-W-P6."""
    request = Request({TP: leader})
    request.park((TP, produce(leader)))
    request.leaders[TP] = error
    assert request.purgatory.check([TP]) == 1
    assert request.answers == [{0: error}]


def test_one_partition_twice_in_a_request_waits_for_both(leader):
    request = Request({TP: leader})
    request.park((TP, produce(leader)), (TP, produce(leader)))
    fetch(leader, 2, 10, 0)
    assert request.purgatory.check([TP]) == 0
    fetch(leader, 2, 11, 0)
    assert request.purgatory.check([TP]) == 1
    assert request.answers == [{0: ErrorCode.NONE, 1: ErrorCode.NONE}]
