"""Fetches that are answered at once, and fetches that wait for data (FE-11 to FE-15).

The table R-W-D is in tests/scenarios, in delayed_fetch.txt and limits.txt."""

from pathlib import Path

import pytest

from leader.delayed_fetch import AwaitedBytes, available_bytes, is_enough
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.log.errors import LogStorageError
from replog.log.fetch import FetchAnswer, FetchPartition, Reading
from replog.log.offsets import EpochEndOffset, Isolation, OffsetMetadata
from replog.topic import TopicPartition
from tests.leader.replicas import ONE_MIB, TP, append_record, fetch, leader_of, log_of, state
from tests.replog.log.test_disk_failures import files_limited_to

EPOCH = 3


class PendingFetch:
    """One parked fetch."""

    def __init__(
        self,
        leaders: dict[TopicPartition, PartitionLeader | ErrorCode],
        *,
        min_bytes: int = 500,
        isolation: Isolation = Isolation.LOG_END,
        max_bytes: int = ONE_MIB,
        offset: int = 100,
        last_epoch: int | None = None,
    ) -> None:
        self.leaders = leaders
        self.isolation = isolation
        self.awaited = AwaitedBytes(min_bytes)
        self.request = FetchPartition(offset, max_bytes, EPOCH, last_epoch)
        self.places = {}
        for tp, leader in leaders.items():
            assert isinstance(leader, PartitionLeader)
            if isolation is Isolation.LOG_END:
                answer = fetch(leader, 2, offset, last_epoch)
            else:
                answer = leader.fetch_as_consumer(self.request, isolation, Reading(max_bytes, min_one=True))
            assert not answer.records
            self.places[tp] = answer.place

    def completes(self) -> bool:
        return any(
            self.awaited.note(tp, available_bytes(leader, self.request, self.places[tp], self.isolation))
            for tp, leader in self.leaders.items()
        )


def leader_at_100(directory: Path, high_watermark: int = 100) -> PartitionLeader:
    """Records 80 to 99 in a segment that begins at 80."""
    log = log_of(directory, "3:80-99", high_watermark=high_watermark)
    return leader_of(log, state(epoch=EPOCH))


@pytest.fixture
def leader(tmp_path: Path) -> PartitionLeader:
    return leader_at_100(tmp_path / "log")


def grow(leader: PartitionLeader, *sizes: int) -> None:
    for size in sizes:
        append_record(leader.log, EPOCH, size)


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR]
)
def test_a_partition_that_left_completes_fe_12_a_to_d(leader, error):
    pending = PendingFetch({TP: leader})
    pending.leaders[TP] = error
    assert pending.completes()


def test_a_log_whose_disk_has_failed_completes_fe_12_d(leader):
    """Before its broker has stopped for it (found by simulated disks, seed 3000)."""
    pending = PendingFetch({TP: leader})
    with files_limited_to(100), pytest.raises(LogStorageError):
        grow(leader, 300)
    assert pending.completes()


def test_divergence_completes_fe_12_h(leader):
    pending = PendingFetch({TP: leader}, last_epoch=3)
    leader.log.epochs.clear()
    assert pending.completes()


def test_places_that_are_not_known_count_nothing_fe_12_f5(leader):
    request = FetchPartition(100, ONE_MIB, EPOCH)
    grow(leader, 300)
    for place in (OffsetMetadata(100), None):
        assert available_bytes(leader, request, place, Isolation.LOG_END) == 0


def test_a_bound_whose_place_damage_hides_counts_nothing_fe_12_f5(leader):
    """LG-1: without a place it is neither in another segment nor at a distance."""
    pending = PendingFetch({TP: leader}, isolation=Isolation.HIGH_WATERMARK, min_bytes=1)
    grow(leader, 100, 100)
    leader.log = again = log_of(leader.log.directory, high_watermark=101)
    (segment,) = again.segments
    with segment.path.open("r+b") as file:
        file.seek(segment.size - 100 + 16)  # the magic of the last batch, where the high watermark is
        file.write(b"!")
    assert again.bound(Isolation.HIGH_WATERMARK) == OffsetMetadata(101)
    assert not pending.completes()


@pytest.mark.parametrize(
    ("answer", "at_once"),
    [
        (FetchAnswer(), False),
        (FetchAnswer(records=b"x" * 49), False),
        (FetchAnswer(records=b"x" * 50), True),
        (FetchAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
        (FetchAnswer(diverging=EpochEndOffset(0, 1)), True),
        (FetchAnswer(preferred_read_replica=2), True),
    ],
)
def test_data_or_news_is_answered_at_once_fe_11(answer, at_once):
    """The data of all partitions together."""
    assert is_enough([FetchAnswer(records=b"x" * 50), answer], 100) is at_once


def test_a_log_that_was_moved_completes_what_waits_on_places_of_the_old_one_7_7(leader, tmp_path):
    """FE-12: its copy begins in the middle of an old segment, and rolls elsewhere."""
    leader.log.roll()
    grow(leader, 5000)
    pending = PendingFetch({TP: leader}, min_bytes=1, offset=101)
    leader.log = log_of(tmp_path / "copy", "3:90-100", high_watermark=100)
    assert not pending.completes(), "nothing new"
    grow(leader, 300)
    assert pending.completes(), "whose position in its segment is less than the old one's"
