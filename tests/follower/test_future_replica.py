"""A replica's copy in another log directory, by the follower's algorithm (7.7)."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from follower.future_replica import FutureReplica
from follower.partition_follower import FollowerProgress
from replog.log.log import Log
from replog.log.retention import delete_old_segments
from replog.topic import TopicPartition
from tests.damage.vocabulary import flip
from tests.leader.replicas import bytes_of
from tests.replog.log.batches import append, client_batch, files_of, open_log
from tests.replog.log.eviction import forget_tails

TP = TopicPartition("t", 0)
PAIR = client_batch(b"a", b"b")


@pytest.fixture
def current(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "current", segment_bytes=300)
    append(log, *[PAIR] * 6, epoch=1)
    return append(log, *[PAIR] * 6, epoch=4)


@pytest.fixture
def replica(tmp_path: Path, current: Log) -> FutureReplica:
    return following(current, tmp_path / "future")


def following(current: Log, directory: Path) -> FutureReplica:
    """Hears of truncations as it does in a broker."""
    replica = FutureReplica(TP, current, open_log(directory, segment_bytes=300), backoff_ms=100)
    current.on_recovery_point_lowered = lambda: replica.current_truncated(current.log_end_offset)
    return replica


def copy_all(replica: FutureReplica, slice_bytes: int = 100, now_ms: int = 0) -> list[FollowerProgress]:
    rounds = []
    while not replica.caught_up:
        rounds.append(replica.copy(slice_bytes, now_ms + len(rounds) * 1000))
        assert len(rounds) < 1000, rounds[-5:]
    return rounds


def resumed(current: Log, directory: Path, *runs: tuple[int, bytes, int], start: int = 0) -> FutureReplica:
    """An earlier run has left a copy: epochs, each with so many of a batch, from `start` on."""
    log = open_log(directory, segment_bytes=300)
    if start:
        log.truncate_fully_and_start_at(start)
    for epoch, batch, count in runs:
        append(log, *[batch] * count, epoch=epoch)
    log.close()
    return following(current, directory)


def test_it_copies_slice_by_slice_until_it_has_everything(current, replica):
    current.update_high_watermark(20)
    rounds = copy_all(replica)
    assert len(rounds) == 12, "a batch is more than half a slice"
    assert all(0 < progress.appended_bytes <= 100 for progress in rounds)
    assert files_of(replica.log.directory) == files_of(current.directory)
    assert replica.log.epochs.entries == current.epochs.entries
    assert replica.log.high_watermark == 20
    append(current, PAIR, epoch=4)
    replica.copy(100, 0)
    assert replica.caught_up
    assert replica.log.log_end_offset == 26


def test_a_truncation_of_the_current_log_is_made_up_for_first(current, replica):
    """Even if what was cut has been written again in the same epoch, which no comparison of epochs could tell."""
    copy_all(replica)
    current.truncate_to(14)
    assert not replica.caught_up
    append(current, *[client_batch(b"c", b"d")] * 6, epoch=4)
    copy_all(replica)
    assert files_of(replica.log.directory) == files_of(current.directory)


def test_a_copy_of_an_earlier_run_is_cut_to_where_it_agrees(current, tmp_path):
    """FT-14: it may have what a crash took from the current log, of an epoch that goes on elsewhere."""
    replica = resumed(current, tmp_path / "future", (1, PAIR, 6), (3, client_batch(b"x", b"y"), 9))
    progress = replica.copy(100, 0)
    assert progress.truncated_to == 12
    assert not replica.caught_up
    copy_all(replica)
    assert files_of(replica.log.directory) == files_of(current.directory)


def test_an_equal_end_is_not_enough(current, tmp_path):
    """The epochs must agree as well."""
    replica = resumed(current, tmp_path / "future", (2, PAIR, 12))
    assert replica.log.log_end_offset == current.log_end_offset
    replica.copy(100, 0)
    assert not replica.caught_up
    copy_all(replica)
    assert files_of(replica.log.directory) == files_of(current.directory)


def test_a_copy_of_an_earlier_run_that_starts_too_late_starts_over(current, tmp_path):
    """The current log was cut below its start, and a crash came before its copy heard of that."""
    replica = resumed(current, tmp_path / "future", (4, PAIR, 3), start=14)
    assert replica.log.log_start_offset == 14
    copy_all(replica)
    assert files_of(replica.log.directory) == files_of(current.directory)


def test_damage_is_noted_and_not_copied(current, replica):
    """FT-11: the copy waits, and has every batch before."""
    flip(current.segments[1].path, 140)
    forget_tails()
    refused = [progress for now_ms in range(0, 1000, 10) if (progress := replica.copy(10_000, now_ms)).refused]
    assert 2 <= len(refused) <= 10, "every 100 ms"
    assert "refused records" in refused[0].note
    assert (replica.caught_up, replica.failure) == (False, None)
    assert 8 <= replica.log.log_end_offset < 16


def test_an_empty_log_is_copied_at_once(tmp_path):
    replica = following(open_log(tmp_path / "current"), tmp_path / "future")
    replica.copy(100, 0)
    assert replica.caught_up


def test_it_goes_by_the_settings_of_the_current_log(current, replica):
    current.config = current.config.model_copy(update={"segment_bytes": 2000})
    copy_all(replica)
    assert len(replica.log.segments) == 1


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_to_the_log_its_copy_is_the_same_in_the_end(tmp_path, seed, monkeypatch):
    """Appends, elections, truncations, new starts, deletions, retention and restarts of the copy, in any order."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # nothing crashes here
    rng = random.Random(seed)
    current = open_log(tmp_path / "current", segment_bytes=300, retention_bytes=600)
    replica = following(current, tmp_path / "future")
    epoch, now_ms = 1, 0

    def elect() -> None:
        nonlocal epoch
        epoch += rng.randint(1, 2)
        current.assign_epoch_start(epoch)

    def grow() -> None:
        append(current, *[client_batch(b"%d" % rng.randrange(10), b"b")] * rng.randint(1, 6), epoch=epoch)

    def cut() -> None:
        current.truncate_to(rng.randint(max(0, current.log_end_offset - 12), current.log_end_offset))
        elect()

    def start_over() -> None:
        current.truncate_fully_and_start_at(2 * rng.randint(0, 30))
        elect()

    def delete() -> None:
        current.update_high_watermark(current.log_end_offset)
        current.maybe_increment_log_start_offset(
            2 * rng.randint(current.log_start_offset // 2, current.high_watermark // 2)
        )

    def retain() -> None:
        current.update_high_watermark(current.log_end_offset)
        delete_old_segments(current, 0)

    def restart() -> None:
        nonlocal replica
        replica.log.close()
        replica = following(current, tmp_path / "future")

    happenings: list[Callable[[], object]] = [grow, grow, grow, elect, cut, start_over, delete, retain, restart]
    copying = [lambda: replica.copy(rng.choice([1, 100, 500]), now_ms)] * 12
    for _ in range(80):
        now_ms += 200
        rng.choice([*happenings, *copying])()
    grow()  # a log without any epoch tells nothing
    copy_all(replica, now_ms=now_ms)
    assert replica.log.log_start_offset == current.log_start_offset
    assert bytes_of(replica.log) == bytes_of(current), f"seed {seed}"
    assert replica.log.epochs.entries == current.epochs.entries
