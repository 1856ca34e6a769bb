"""A follower's requests and what answers do to its log (FT-2 to FT-13, FT-20 to FT-23, HW-9)."""

from pathlib import Path

import pytest

from follower.partition_follower import NO_PROGRESS, FetchState, PartitionFollower
from replog.errors import ErrorCode
from replog.log.errors import LogStorageError
from replog.log.fetch import FetchAnswer, FetchPartition
from replog.log.log import Log
from replog.log.offsets import EpochEndOffset
from tests.leader.replicas import NOW_MS, ONE_MIB, TP, bytes_of, log_of, pair_of, state
from tests.replog.log.batches import client_batch, leader_batch

BACKOFF_MS = 1000


def follower_of(log: Log, epoch: int = 1, leader: int = 1) -> PartitionFollower:
    follower = PartitionFollower(TP, log, backoff_ms=BACKOFF_MS)
    assert follower.become_follower(state(leader=leader, epoch=epoch), NOW_MS)
    return follower


@pytest.fixture
def follower(tmp_path: Path) -> PartitionFollower:
    """At log end 5, high watermark 3, in leader epoch 1."""
    return follower_of(log_of(tmp_path, "0:0-4", high_watermark=3))


def asked(follower: PartitionFollower, now_ms: int = NOW_MS) -> FetchPartition:
    request = follower.next_fetch(now_ms, ONE_MIB)
    assert request is not None, (follower.fetch_state, follower.failure, follower.next_retry_ms)
    return request


def test_its_lag_is_what_it_lacks_below_the_leaders_high_watermark_ft_7(follower):
    assert follower.lag is None, "the leader has not told"
    follower.on_answer(asked(follower), FetchAnswer(high_watermark=7, records=leader_batch(5, 1, b"a")), NOW_MS)
    assert follower.lag == 1
    follower.on_answer(asked(follower), FetchAnswer(high_watermark=7, records=leader_batch(6, 1, b"b")), NOW_MS)
    assert follower.lag == 0
    follower.become_follower(state(leader=3, epoch=2, partition_epoch=1, isr=(3,)), NOW_MS)
    assert (follower.lag, follower.isr) == (None, (3,))


# Metadata


def test_it_tells_the_log_start_that_a_crash_cannot_take_back_ft_23(follower):
    follower.log.on_log_start_raised = lambda: None  # its checkpoint is written later
    follower.log.maybe_increment_log_start_offset(3)
    assert asked(follower).log_start_offset == 0
    follower.log.log_start_saved(3)
    assert asked(follower).log_start_offset == 3


def test_a_change_of_members_leaves_fetching_alone(follower):
    request = asked(follower)
    follower.on_failure(request, NOW_MS)
    assert not follower.become_follower(state(epoch=1, partition_epoch=1, isr=(1, 2)), NOW_MS)
    assert follower.next_retry_ms == NOW_MS + BACKOFF_MS


def test_older_metadata_is_ignored(follower):
    follower.become_follower(state(epoch=1, partition_epoch=5), NOW_MS)
    assert not follower.become_follower(state(leader=3, epoch=2, partition_epoch=4), NOW_MS)
    assert (follower.leader_id, follower.leader_epoch) == (1, 1)


def test_nothing_is_fetched_without_a_leader(tmp_path):
    follower = follower_of(log_of(tmp_path), leader=-1)
    assert follower.next_fetch(NOW_MS, ONE_MIB) is None
    assert follower.next_retry_ms is None


# Data


def test_a_log_start_that_moves_alone_is_told_to_those_who_read_here_fe_14(follower):
    """It may end the wait of one that reads what is committed, for a transaction that is gone by now (swarm 800002)."""
    follower.on_answer(asked(follower), FetchAnswer(high_watermark=5, log_start_offset=0), NOW_MS)
    later = follower.on_answer(asked(follower), FetchAnswer(high_watermark=5, log_start_offset=4), NOW_MS)
    again = follower.on_answer(asked(follower), FetchAnswer(high_watermark=5, log_start_offset=4), NOW_MS)
    assert (later.bounds_moved, again.bounds_moved) == (True, False)


def test_a_log_start_above_the_high_watermark_is_an_error_and_no_clamp_ft_23(follower):
    progress = follower.on_answer(asked(follower), FetchAnswer(high_watermark=3, log_start_offset=4), NOW_MS)
    assert follower.fetch_state is FetchState.FAILED
    assert progress.note is not None
    assert "above high watermark 3" in progress.note
    assert follower.log.log_start_offset == 0


def test_a_flipped_bit_stops_at_that_batch_and_is_fetched_again_ft_11(follower):
    good, bad = leader_batch(5, 1, b"good"), bytearray(leader_batch(6, 1, b"bad"))
    bad[-2] ^= 1
    request = asked(follower)
    progress = follower.on_answer(request, FetchAnswer(high_watermark=7, records=good + bytes(bad)), NOW_MS)
    assert progress.note is not None
    assert "CRC" in progress.note
    assert (follower.log.log_end_offset, follower.log.high_watermark) == (6, 3)
    assert follower.next_fetch(NOW_MS, ONE_MIB) is None
    assert asked(follower, NOW_MS + BACKOFF_MS).fetch_offset == 6


@pytest.mark.parametrize("most", [16, 65])
def test_where_there_was_room_for_the_start_of_a_batch_alone_nothing_is_refused(follower, most):
    """RB-7: so an answer ends that is full. A follower that waited for its backoff then caught up a second later."""
    batch = leader_batch(5, 1, b"next")
    progress = follower.on_answer(asked(follower), FetchAnswer(high_watermark=5, records=batch[:most]), NOW_MS)
    assert not progress.note
    follower.on_answer(asked(follower), FetchAnswer(high_watermark=6, records=batch), NOW_MS)
    assert follower.log.high_watermark == 6


def test_an_empty_log_restarts_at_the_batch_that_holds_its_start_ft_13(tmp_path):
    """LG-3."""
    leader_log = log_of(tmp_path / "leader")
    for values in ([b"0", b"1", b"2"], [b"3", b"4", b"5"]):
        leader_log.append_as_leader(client_batch(*values), leader_epoch=1, now_ms=0)
    leader_log.update_high_watermark(6)
    leader_log.maybe_increment_log_start_offset(4)
    pair = pair_of(leader_log, log_of(tmp_path / "follower"), 1)
    pair.catch_up()
    assert [said for *_, said in pair.rounds[:2]] == ["OFFSET_OUT_OF_RANGE", "ok"]
    log = pair.follower.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (4, 6, 6)
    assert bytes_of(log, 4) == bytes_of(leader_log, 4)


# Answers that no longer fit


def test_a_late_answer_does_not_cut_a_delay_short(follower):
    request = asked(follower)
    follower.on_failure(request, NOW_MS)
    assert follower.on_answer(request, FetchAnswer(high_watermark=5), NOW_MS + 1) is NO_PROGRESS
    assert follower.next_fetch(NOW_MS + BACKOFF_MS - 1, ONE_MIB) is None
    assert follower.next_fetch(NOW_MS + BACKOFF_MS, ONE_MIB) is not None
    assert follower.next_retry_ms is None


def test_a_leader_that_repeats_a_useless_divergence_is_not_hurried_ft_14(follower):
    progress = follower.on_answer(asked(follower), FetchAnswer(diverging=EpochEndOffset(0, 9)), NOW_MS)
    assert progress.note is not None
    assert follower.log.log_end_offset == 5
    assert follower.next_retry_ms == NOW_MS + BACKOFF_MS


# Errors


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_other_errors_are_tried_again_soon_and_then_less_often_up_to_the_backoff_ft_11(follower, error):
    """Divergence 17: until the leader answers."""
    now_ms, waits = NOW_MS, []
    for _ in range(8):
        assert follower.on_answer(asked(follower, now_ms), FetchAnswer(error), now_ms) == NO_PROGRESS
        assert follower.next_retry_ms is not None
        waits.append(follower.next_retry_ms - now_ms)
        now_ms = follower.next_retry_ms
    assert waits == [20, 40, 80, 160, 320, 640, BACKOFF_MS, BACKOFF_MS]
    follower.on_answer(asked(follower, now_ms), FetchAnswer(ErrorCode.NONE, high_watermark=0), now_ms)
    follower.on_answer(asked(follower, now_ms), FetchAnswer(error), now_ms)
    assert follower.next_retry_ms == now_ms + 20


def test_a_failing_disk_fails_the_partition_and_is_raised(follower):
    request = asked(follower)
    follower.log.abandon()
    with pytest.raises(LogStorageError):
        follower.on_answer(request, FetchAnswer(high_watermark=6, records=leader_batch(5, 1, b"x")), NOW_MS)
    assert follower.fetch_state is FetchState.FAILED
    assert follower.next_fetch(NOW_MS, ONE_MIB) is None


def test_bounds_that_make_no_sense_are_not_acted_on(follower):
    answer = FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=-1, log_end_offset=-1)
    assert follower.on_answer(asked(follower), answer, NOW_MS).note is not None
    assert follower.log.log_end_offset == 5
    assert follower.next_retry_ms is not None


@pytest.mark.parametrize(
    ("start", "end", "left"), [(0, 4, (0, 4)), (4, 4, (0, 4)), (9, 12, (9, 9)), (0, 9, (0, 5)), (5, 5, (0, 5))]
)
def test_out_of_range_is_decided_from_the_leaders_bounds_ft_19(follower, start, end, left):
    answer = FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=start, log_end_offset=end)
    progress = follower.on_answer(asked(follower), answer, NOW_MS)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == left
    assert progress.truncated_to == (None if left == (0, 5) else left[1])


# The high watermark


def test_a_pushed_high_watermark_is_taken_at_once_and_clamped(follower):
    follower.on_answer(asked(follower), FetchAnswer(high_watermark=3), NOW_MS)
    assert follower.on_high_watermark(1, 4)
    assert follower.log.high_watermark == 4
    assert not follower.on_high_watermark(1, 4)
    assert not follower.on_high_watermark(1, 3), "an older one does not take it back"
    assert follower.on_high_watermark(1, 99)
    assert follower.log.high_watermark == 5


def test_a_pushed_high_watermark_of_another_epoch_is_ignored(follower):
    follower.on_answer(asked(follower), FetchAnswer(high_watermark=3), NOW_MS)
    assert not follower.on_high_watermark(0, 5)
    assert not follower.on_high_watermark(2, 5)
    assert follower.log.high_watermark == 3


def test_a_pushed_high_watermark_is_ignored_before_this_log_is_known_to_match(follower):
    """Until an answer of the epoch was accepted, the records below it may be another leader's (INV-5)."""
    assert not follower.on_high_watermark(1, 5)
    follower.on_answer(asked(follower), FetchAnswer(diverging=EpochEndOffset(0, 4)), NOW_MS)
    assert not follower.on_high_watermark(1, 4)
    follower.on_answer(asked(follower), FetchAnswer(high_watermark=3), NOW_MS)
    assert follower.on_high_watermark(1, 4)


def test_an_answer_that_comes_too_late_for_its_records_still_tells_the_high_watermark(follower):
    """FE-17: the leader has told it and will not again; with nothing more appended it would stay behind for ever."""
    request = asked(follower)
    batch = leader_batch(5, 1, b"new")
    follower.on_answer(request, FetchAnswer(high_watermark=3, records=batch), NOW_MS)
    # asked a second time for the sake of another partition, before the first answer was there
    progress = follower.on_answer(request, FetchAnswer(high_watermark=6, records=batch), NOW_MS)
    assert progress.bounds_moved
    assert (follower.log.high_watermark, follower.log.log_end_offset) == (6, 6)
    follower.on_answer(request, FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=1), NOW_MS)
    assert (follower.log.high_watermark, follower.log.log_end_offset) == (6, 6)


def test_a_log_that_ends_at_the_leaders_log_start_begins_anew_where_that_lies_inside_of_a_batch_ft_13(follower):
    """Its tail was cut to the leader's log start, and the leader's batch there begins before it: of what is here the
    leader has nothing any more, so nothing is lost (found by simulated disks, seed 2028)."""
    batch = leader_batch(4, 1, b"deleted", b"kept")
    answer = FetchAnswer(high_watermark=6, log_start_offset=5, records=batch)
    assert follower.on_answer(asked(follower), answer, NOW_MS).note is None
    assert bytes_of(follower.log) == batch
    assert (follower.log.log_start_offset, follower.log.high_watermark, follower.log.log_end_offset) == (5, 6, 6)


def test_a_batch_that_overlaps_what_the_leader_still_has_is_refused(follower):
    answer = FetchAnswer(high_watermark=6, log_start_offset=4, records=leader_batch(4, 1, b"again", b"new"))
    assert "does not begin at log end 5" in (follower.on_answer(asked(follower), answer, NOW_MS).note or "")
    assert follower.log.log_end_offset == 5


def test_a_failed_partition_takes_no_pushed_high_watermark(follower):
    follower.on_answer(asked(follower), FetchAnswer(high_watermark=3), NOW_MS)
    follower.on_answer(asked(follower), FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH), NOW_MS)
    assert not follower.on_high_watermark(1, 5)


def test_what_a_leader_cannot_vouch_for_is_hidden_for_good_before_anything_follows_it(tmp_path):
    """INV-13, FT-23: its log begins where this one ends, in a later epoch, after an unclean election and a deletion.

    Else a crash before the next checkpoint of log starts would show what this log has below."""
    log = log_of(tmp_path, "0:0-4", high_watermark=3)
    durable: list[tuple[int, int]] = []
    log.on_recovery_point_lowered = lambda: durable.append((log.log_start_offset, log.log_end_offset))
    follower = follower_of(log)
    answer = FetchAnswer(high_watermark=6, log_start_offset=5, records=leader_batch(5, 1, b"a"))
    follower.on_answer(asked(follower), answer, NOW_MS)
    assert durable == [(5, 5)]
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (5, 6, ((1, 5),))
    same = log_of(tmp_path / "same", "1:0-4", high_watermark=5)
    same.on_recovery_point_lowered = lambda: durable.append((same.log_start_offset, same.log_end_offset))
    follower = follower_of(same)
    follower.on_answer(asked(follower), answer, NOW_MS)
    assert len(durable) == 1, "of the epoch that the leader has: the same"
