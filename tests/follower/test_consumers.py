"""A follower serves the consumers that its leader sends (FE-20, FE-21)."""

from pathlib import Path

import pytest

from follower.partition_follower import PartitionFollower
from leader.delayed_fetch import Reader, available_bytes
from replog.errors import ErrorCode
from replog.log.fetch import FetchAnswer, FetchPartition, Reading
from replog.log.formats.batch import iterate_batches
from replog.log.offsets import Isolation
from tests.leader.replicas import NOW_MS, ONE_MIB, TP, leader_of, log_of, outcome, state

EPOCH = 4


@pytest.fixture
def follower(tmp_path: Path) -> PartitionFollower:
    """Log start 3, high watermark 6, log end 10; broker 2, which follows 1 in epoch 4."""
    log = log_of(tmp_path, "3:3-9", high_watermark=6)
    follower = PartitionFollower(TP, log, backoff_ms=100)
    follower.become_follower(state(epoch=EPOCH), NOW_MS)
    return follower


def consume(
    follower: PartitionFollower, offset: int, epoch: int | None = EPOCH, last_epoch: int | None = None
) -> FetchAnswer:
    request = FetchPartition(offset, ONE_MIB, epoch, last_epoch)
    return follower.fetch_as_consumer(request, Isolation.HIGH_WATERMARK, Reading(ONE_MIB, min_one=True))


def waiting_bytes(serving: Reader | ErrorCode, answer: FetchAnswer, offset: int) -> int | None:
    """What a consumer that got this answer has to read by now; None: other news."""
    request = FetchPartition(offset, ONE_MIB, EPOCH)
    return available_bytes(serving, request, answer.place, Isolation.HIGH_WATERMARK)


def offsets(answer: FetchAnswer) -> list[int]:
    return [header.base_offset for _, header in iterate_batches(bytes(answer.records))]


@pytest.mark.parametrize(
    ("offset", "epoch", "last_epoch", "expected"),
    [
        pytest.param(11, EPOCH, None, "OFFSET_OUT_OF_RANGE", id="past its end"),
        pytest.param(2, EPOCH, None, "OFFSET_OUT_OF_RANGE", id="before its start"),
        pytest.param(9, EPOCH, EPOCH, "OFFSET_OUT_OF_RANGE", id="of an epoch it has nothing of"),
        pytest.param(9, EPOCH, 2, "diverging 2,3", id="of an epoch before its log"),
        pytest.param(4, EPOCH - 1, None, "FENCED_LEADER_EPOCH", id="an older leader epoch"),
        pytest.param(4, EPOCH + 1, None, "UNKNOWN_LEADER_EPOCH", id="a newer leader epoch"),
        pytest.param(4, None, None, "ok", id="no leader epoch"),
        pytest.param(4, EPOCH, 3, "ok", id="the right history"),
    ],
)
def test_it_refuses_by_its_own_log_and_epoch_fe_2(follower, offset, epoch, last_epoch, expected):
    answer = consume(follower, offset, epoch, last_epoch)
    assert outcome(answer) == expected
    assert bool(answer.records) == (expected == "ok")


@pytest.mark.parametrize("what", ["a new epoch", "a cut", "the leadership", "nobody serves it"])
def test_a_waiting_consumer_is_answered_when_its_follower_changes_fe_12(tmp_path, what):
    log = log_of(tmp_path, "3:0-9", high_watermark=6)
    follower = PartitionFollower(TP, log, backoff_ms=100)
    follower.become_follower(state(epoch=EPOCH), NOW_MS)
    answer = consume(follower, 9)
    assert waiting_bytes(follower, answer, 9) == 0
    serving: Reader | ErrorCode = follower
    if what == "a new epoch":
        follower.become_follower(state(epoch=EPOCH + 1, partition_epoch=1), NOW_MS)
    elif what == "a cut":
        log.truncate_to(8)
    elif what == "the leadership":
        serving = leader_of(log, state(leader=2, epoch=EPOCH + 1, partition_epoch=1))
    else:
        serving = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert waiting_bytes(serving, answer, 9) is None
