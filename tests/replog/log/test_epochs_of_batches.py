"""Epochs that come with a follower's batches: in memory first, durable with the batches at the latest (EP-9, LD-10)."""

from pathlib import Path

from replog.log.epochs import LeaderEpochCache
from replog.log.log import Log
from tests.replog.log.batches import config, leader_batch, open_log
from tests.replog.log.directories.test_changes import fsyncs


def follow(log: Log, epoch: int, count: int = 1) -> None:
    for _ in range(count):
        log.append_as_follower(leader_batch(log.log_end_offset, epoch, b"x"))


def on_disk(directory: Path) -> tuple[tuple[int, int], ...]:
    return LeaderEpochCache.load(directory / "leader-epoch-checkpoint").entries


def test_a_followers_append_waits_for_no_disk_and_a_flush_saves_the_epoch_first(tmp_path):
    log = open_log(tmp_path)
    with fsyncs() as synced:
        follow(log, 3, 2)
        follow(log, 5)
    assert not synced
    assert log.epochs.entries == ((3, 0), (5, 2))
    task = log.flush_task()
    assert task is not None
    with fsyncs() as synced:
        task.run()
    assert Path(synced[0]).name == "leader-epoch-checkpoint.tmp", "before the recovery point rises"
    assert on_disk(tmp_path) == ((3, 0), (5, 2))


def test_what_a_crash_leaves_too_much_of_is_not_believed(tmp_path):
    """The batches of epoch 5 were another leader's, and none of them is there any more."""
    log = open_log(tmp_path)
    follow(log, 3, 4)
    follow(log, 5, 4)
    log.flush()
    log.truncate_to(2)
    assert on_disk(tmp_path) == ((3, 0),)
    follow(log, 6, 5)
    log.abandon()
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n5 4\n")
    again = Log.open(tmp_path, config(), clean=False)
    assert again.epochs.entries == ((3, 0), (6, 2))


def test_whole_segments_that_are_cut_off_are_gone_durably_before_anything_is_appended(tmp_path):
    log = open_log(tmp_path, segment_bytes=150)
    follow(log, 3, 6)
    assert len(log.segments) > 2
    with fsyncs() as synced:
        log.truncate_to(1)
    assert str(tmp_path) in synced


def test_a_log_that_is_closed_for_deletion_writes_nothing_more(tmp_path):
    """Its directory's name may be another topic's by then."""
    log = open_log(tmp_path)
    follow(log, 3)
    log.epochs.close()
    log.epochs.save()
    assert not (tmp_path / "leader-epoch-checkpoint").exists()
