"""What counts as stored, and what has to be before anything else, where somebody else runs the flushes (LG-18)."""

from pathlib import Path

import pytest

from replog.log.durable import FlushTask
from replog.log.errors import LogStorageError, TooManyOpenFiles
from replog.log.log import Log
from replog.log.retention import delete_old_segments
from tests.replog.log.files.test_open_files import no_descriptors_left

from .batches import append, client_batch, leader_batch, open_log


def asking_log(directory: Path, **settings: int) -> tuple[Log, list[int]]:
    """A log that asks for its flushes; the list has its end each time that it did."""
    log, asked = open_log(directory, **settings), list[int]()
    log.on_flush_due = lambda: asked.append(log.log_end_offset)
    return log, asked


def task_of(log: Log) -> FlushTask:
    task = log.flush_task()
    assert task is not None
    return task


def run(log: Log) -> None:
    task = task_of(log)
    task.run()
    log.flushed(task)


@pytest.mark.parametrize(("flush_messages", "promised"), [(1, [0, 0, 0]), (3, [1, 2, 2]), (1 << 62, [1, 2, 3])])
def test_fewer_than_flush_messages_count_that_are_not_flushed(tmp_path, flush_messages, promised):
    """LG-2 (10): an append that reaches the bound is there, and does not count before a flush."""
    log, asked = asking_log(tmp_path, flush_messages=flush_messages)
    offsets = []
    for _ in range(3):
        append(log, client_batch(b"x"))
        offsets.append(log.promised_offset)
    assert offsets == promised
    assert asked == [end for end, counts in zip((1, 2, 3), promised, strict=True) if counts < end]
    assert log.recovery_point == 0


def test_one_task_serves_every_append_before_it_and_none_behind_it(tmp_path):
    log, _ = asking_log(tmp_path, flush_messages=1)
    append(log, *[client_batch(b"x")] * 5)
    task = task_of(log)
    append(log, client_batch(b"late"))
    task.run()
    log.flushed(task)
    assert (log.recovery_point, log.promised_offset) == (5, 5)
    run(log)
    assert log.promised_offset == 6
    assert log.flush_task() is None


def test_a_flush_of_the_active_segment_syncs_its_log_and_nothing_else(tmp_path):
    """LG-18, LD-5: a recovery rebuilds the indexes, and no file is new. Sealed ones are synced whole."""
    log, _ = asking_log(tmp_path, flush_messages=1)
    append(log, client_batch(b"x"))
    run(log)
    append(log, client_batch(b"y"))
    task = task_of(log)
    assert ([Path(file.path).suffix for file in task.files], task.paths, task.new_names) == ([".log"], [], False)
    run(log)
    log.roll()
    append(log, client_batch(b"z"))
    task = task_of(log)
    assert [Path(file.path).suffix for file in task.files] == [".log", ".index", ".timeindex", ".digest", ".log"]
    assert task.new_names


def test_nothing_is_done_by_a_task_that_a_truncation_has_made_void(tmp_path):
    log, asked = asking_log(tmp_path, flush_messages=1)
    append(log, *[client_batch(b"x")] * 5)
    void = task_of(log)
    log.truncate_to(3)
    asked.clear()
    void.run()
    log.flushed(void)
    assert (log.recovery_point, log.settled) == (0, False)
    log.ask_for_flush()
    assert asked == [3]
    run(log)
    assert (log.recovery_point, log.settled) == (3, True)


@pytest.mark.parametrize("target", [7, 4, 0])
def test_a_truncation_is_settled_by_a_task_and_nothing_is_deleted_before(tmp_path, target):
    log, asked = asking_log(tmp_path, segment_bytes=200, retention_bytes=0)
    append(
        log, *[client_batch(b"x" * 50, producer_id=7, producer_epoch=0, base_sequence=number) for number in range(10)]
    )
    log.update_high_watermark(target)
    assert log.truncate_to(target)
    assert (log.log_end_offset, asked) == (target, [target])
    assert (log.settled, delete_old_segments(log, 0)) == (False, 0)
    run(log)
    assert log.settled
    reopened = open_log(tmp_path, clean=False, segment_bytes=200)
    assert reopened.log_end_offset == target
    assert reopened.producers.snapshot_entries() == log.producers.snapshot_entries()


def test_a_truncation_of_everything_waits_for_its_task_too(tmp_path):
    """LG-12: to an offset where a segment with that name is."""
    log, asked = asking_log(tmp_path)
    append(log, *[client_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=number) for number in range(3)])
    log.roll()
    log.truncate_fully_and_start_at(3)
    assert (log.segments[0].base_offset, log.size, asked) == (3, 0, [3])
    assert not log.settled
    run(log)
    assert log.settled
    log.append_as_follower(leader_batch(3, 1, b"y"))
    assert log.log_end_offset == 4
    assert log.producers.empty


def test_a_log_in_which_nothing_was_begins_elsewhere_at_once(tmp_path):
    """FT-13: a follower whose leader's log begins inside of a batch could not go on otherwise."""
    log, asked = asking_log(tmp_path, flush_messages=1)
    log.truncate_fully_and_start_at(7)
    assert log.promised_offset == 7, "or it would never be in sync with a leader that is empty, too"
    log.truncate_fully_and_start_at(6)
    assert (asked, log.settled) == ([], True)
    log.append_as_follower(leader_batch(6, 1, b"x", b"y"))
    log.abandon()
    assert open_log(tmp_path, clean=False, recovery_point=7).log_end_offset == 8


def test_an_empty_log_that_is_cut_back_waits_until_the_checkpoint_says_so(tmp_path):
    """LG-10: what it takes in below the old recovery point would count as durable after a crash."""
    log, asked = asking_log(tmp_path)
    log.truncate_fully_and_start_at(7000)
    lowered = list[int]()
    log.on_recovery_point_lowered = lambda: lowered.append(log.recovery_point)
    assert log.truncate_to(10)
    assert (asked, log.settled, log.log_end_offset) == ([10], False, 10)
    log.flush()
    assert (lowered, log.settled) == ([10], True)
    append(log, client_batch(b"x"))


def test_what_is_hidden_is_hidden_for_good_once_it_is_settled(tmp_path):
    log, _ = asking_log(tmp_path)
    append(log, *[client_batch(b"x")] * 3)
    assert not log.hides_all
    log.hide_all()
    assert (log.log_start_offset, log.hides_all) == (3, False)
    run(log)
    assert log.hides_all
    append(log, client_batch(b"x"))
    assert not log.hides_all


def test_a_want_of_descriptors_in_the_middle_of_a_truncation_leaves_the_rest_for_later(tmp_path):
    log, _ = asking_log(tmp_path)
    append(log, *[client_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=number) for number in range(5)])
    with no_descriptors_left():
        assert log.truncate_to(3)  # its own files are open
        task = task_of(log)
        with pytest.raises(TooManyOpenFiles):
            task.run()
    assert (log.failure, log.settled) == (None, False)
    run(log)
    append(log, client_batch(b"y"))
    assert log.log_end_offset == 4


def test_a_truncation_of_everything_without_descriptors_is_refused_before_anything_has_happened(tmp_path):
    log, asked = asking_log(tmp_path)
    append(log, *[client_batch(b"x")] * 5)
    with no_descriptors_left(), pytest.raises(TooManyOpenFiles):
        log.truncate_fully_and_start_at(3)
    assert (log.failure, log.log_end_offset, asked) == (None, 5, [])
    assert [path.name for path in tmp_path.glob("*.tmp")] == []
    append(log, client_batch(b"x"))


def test_a_task_that_met_a_failed_disk_fails_the_log(tmp_path):
    log, _ = asking_log(tmp_path)
    told: list[LogStorageError] = []
    log.on_failure = told.append
    error = LogStorageError("the disk failed")
    log.work.fail(error)
    assert told == [error]
    with pytest.raises(LogStorageError):
        append(log, client_batch(b"x"))
