"""One log directory: lock, identity, loading, checkpoints, the clean-shutdown marker (1.1, 1.3, 1.4, FN-1, FN-3)."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from replog.log.directories import log_directory
from replog.log.directories.log_directory import LogDirectory
from replog.log.directories.replica import OpenedLog
from replog.log.errors import LogStorageError
from replog.log.files.deletion import remove
from replog.log.formats.checkpoint import OffsetCheckpoint
from replog.log.log import Log
from replog.topic import TopicPartition
from tests.replog.log.batches import append, config
from tests.replog.log.directories.moving import ID, OTHER, PAIR, TP, created, deleted, open_directory
from tests.replog.log.directories.test_changes import fsyncs

MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def manager(tmp_path: Path) -> LogDirectory:
    return open_directory(tmp_path / "disk")


@pytest.fixture
def log(manager: LogDirectory) -> Log:
    return append(created(manager, TP, ID, config()), *[PAIR] * 4)


def test_an_orderly_stop_and_start(manager, log):
    """FN-3."""
    assert (manager.clean, manager.previous_stop.broker_epoch) == (False, -1)
    log.update_high_watermark(6)
    log.maybe_increment_log_start_offset(3)
    manager.close(17)
    directory = manager.path
    assert (directory / MARKER).read_text() == '{"version":0,"brokerEpoch":17,"logDirs":1}'
    again = open_directory(directory, load=False)
    assert (again.clean, again.previous_stop.broker_epoch) == (True, 17)
    assert not (directory / MARKER).exists(), "gone before anything is loaded (FN-3)"
    (loaded,) = again.load(lambda tp: config()).values()
    assert (loaded.log_start_offset, loaded.high_watermark, loaded.log_end_offset) == (3, 6, 8)
    assert (loaded.recovery_point, again.topic_id(TP)) == (8, ID)


def test_a_marker_tells_which_process_stopped_and_nobody_else_may_read_it_isr_18(manager):
    """ISR-18."""
    manager.close(17, b"i" * 16)
    assert f"{(manager.path / MARKER).stat().st_mode:o}"[-3:] == "600"
    assert open_directory(manager.path, load=False).previous_stop == (17, b"i" * 16)


@pytest.mark.parametrize("written", ['"zz"', '"a"', "5", "null", "[]"])
def test_what_is_no_incarnation_id_in_a_marker_proves_nothing_isr_18(manager, written):
    """ISR-18."""
    manager.close(17)
    (manager.path / MARKER).write_text(f'{{"brokerEpoch":17,"incarnationId":{written}}}')
    assert open_directory(manager.path, load=False).previous_stop == (17, b"")


def test_a_long_load_says_how_far_it_is(manager, log, monkeypatch):
    monkeypatch.setattr(log_directory, "TELL_EVERY", 1)
    manager.close(17)
    lines: list[str] = []
    open_directory(manager.path, report=lines.append)
    assert lines == [f"1 of 1 directories in {manager.path} are loaded"]


def test_clean_or_not_is_said_of_a_directory_and_all_its_partitions(tmp_path):
    """FN-4: after a crash every partition is recovered, even one that was not written to; another disk is not."""
    for disk in ("one", "two"):
        manager = open_directory(tmp_path / disk)
        for tp in (TP, OTHER):
            append(created(manager, tp, ID, config()), PAIR)
        manager.close(5)
    open_directory(tmp_path / "one").abandon()
    recovered = {}
    for disk in ("one", "two"):
        lines: list[str] = []
        open_directory(tmp_path / disk, report=lines.append)
        recovered[disk] = sorted({tp for line in lines for tp in ("a-b-12", "t-0") if f"{tp}/" in line})
    assert recovered == {"one": ["a-b-12", "t-0"], "two": []}


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogStorageError, match=r"file.*Not a directory|file.*exists"):
        open_directory(tmp_path / "file" / "logs")


def test_partition_metadata_says_whose_the_directory_is(manager, log):
    path = manager.path / "a-b-12" / "partition.metadata"
    assert path.read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert manager.topic_id(TP) == ID
    with pytest.raises(ValueError, match="topic id"):
        created(manager, OTHER, bytes(16), config())


def test_what_was_never_recovered_is_not_marked_clean(manager, log):
    """FN-3: after an unclean stop, a replica that could not be loaded still waits for its recovery."""
    manager.abandon()
    path = manager.path / "a-b-12" / "partition.metadata"
    content = path.read_text()
    path.write_text("damaged")
    open_directory(manager.path).close(6)
    assert not (manager.path / MARKER).exists()
    path.write_text(content)
    again = open_directory(manager.path)
    assert (again.clean, again.logs[TP].log_end_offset) == (False, 8)
    again.close(7)
    assert (manager.path / MARKER).exists()


def test_a_new_replica_inherits_nothing_from_one_that_was_moved_away(manager, log):
    """Not even if the broker crashes soon: what was never flushed would count as durable, and as committed."""
    log.update_high_watermark(8)
    manager.close(1)
    log.directory.rename(manager.path.parent / "away")
    again = open_directory(manager.path)
    append(created(again, TP, ID, config()), *[PAIR] * 4)
    again.abandon()
    lines: list[str] = []
    last = open_directory(manager.path, report=lines.append)
    log = last.logs[TP]
    assert (log.recovery_point, log.high_watermark, log.log_end_offset) == (0, 0, 8)
    last.abandon()


def test_an_emptied_replica_has_lost_data(manager, log):
    manager.close(5)
    for path in (manager.path / "a-b-12").glob("0*"):
        path.unlink()
    loaded = open_directory(manager.path).logs[TP]
    assert (loaded.log_end_offset, loaded.lost_data) == (0, True)


def test_an_interrupted_creation_leaves_nothing_and_is_begun_anew(manager):
    """Its topic may be gone by now. What has other things in it is not ours."""
    manager.abandon()
    (manager.path / "t-0").mkdir()
    for name in ("partition.metadata", "leader-epoch-checkpoint", f"{0:020d}.log", f"{0:020d}.timeindex"):
        (manager.path / "t-0" / name).touch()
    (manager.path / "photos-2026").mkdir()
    (manager.path / "photos-2026" / "partition.metadata").touch()
    (manager.path / "photos-2026" / "01.jpg").touch()
    again = open_directory(manager.path)
    assert (again.logs, again.failed) == ({}, {})
    assert not (manager.path / "t-0").exists()
    assert len(list((manager.path / "photos-2026").iterdir())) == 2
    assert append(created(again, OTHER, ID, config()), PAIR).log_end_offset == 2


def test_a_replica_that_no_checkpoint_tells_of_is_made_durable_when_it_is_found(manager, log):
    """A kill may have interrupted its creation, and with records a torn topic id keeps a broker from starting
    (directories 840031). Where there is a checkpoint nothing is waited for."""
    manager.abandon()
    with fsyncs() as synced:
        again = open_directory(manager.path)
    assert {str(log.directory / "partition.metadata"), str(log.directory), str(manager.path)} <= {*synced}
    again.checkpoints.write_all()
    again.abandon()
    with fsyncs() as synced:
        open_directory(manager.path)
    assert str(log.directory / "partition.metadata") not in synced


def test_high_watermarks_may_be_written_by_several_threads_at_once_and_by_none_after_the_end(manager, log):
    """The periodic checkpoint may still be under way when the broker stops (FN-3)."""
    log.update_high_watermark(6)
    with ThreadPoolExecutor(2) as threads:
        written = [threads.submit(manager.checkpoints.write_high_watermarks) for _ in range(50)]
        for _ in range(50):
            manager.checkpoints.write_high_watermarks()
        for write in written:
            write.result()
    log.update_high_watermark(8)
    manager.close(1)
    log.update_high_watermark(4)
    manager.checkpoints.write_high_watermarks()
    reloaded = open_directory(manager.path).logs[TP]
    assert reloaded.high_watermark == 8


def test_nothing_is_checkpointed_before_everything_is_loaded(manager, log):
    """HW-12."""
    log.update_high_watermark(6)
    manager.close(5)
    again = open_directory(manager.path, load=False)
    again.checkpoints.write_high_watermarks()
    again.checkpoints.write_recovery_points()
    again.close(6)
    third = open_directory(manager.path)
    assert third.clean
    assert (third.logs[TP].high_watermark, third.previous_stop.broker_epoch) == (6, 6)


def test_a_truncation_checkpoints_the_lower_recovery_point(manager, log):
    log.flush()
    manager.checkpoints.write_recovery_points()
    log.truncate_to(4)
    assert OffsetCheckpoint(manager.path / "recovery-point-offset-checkpoint").read() == {TP: 4}


def test_a_truncation_below_the_log_start_checkpoints_that_too(manager, log):
    """LD-8, LG-10: or a crash would hide what is appended next, or end with an empty log at the old log start."""
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(7)
    manager.checkpoints.write_log_starts()
    log.truncate_to(4)
    append(log, PAIR)
    log.flush()
    manager.abandon()
    again = open_directory(manager.path)
    reloaded = again.logs[TP]
    assert (reloaded.log_start_offset, reloaded.log_end_offset) == (4, 6)
    again.abandon()


def test_a_log_that_ends_below_its_recovery_point_has_a_lower_one_from_then_on(manager, log):
    """LD-9: a crash between a truncation and its checkpoint; what is appended next is not durable up to the old one."""
    log.flush()
    manager.checkpoints.write_recovery_points()
    log.on_recovery_point_lowered = lambda: None
    log.truncate_to(4)
    manager.abandon()
    again = open_directory(manager.path)
    reloaded = again.logs[TP]
    assert (reloaded.log_end_offset, reloaded.recovery_point) == (4, 4)
    assert OffsetCheckpoint(manager.path / "recovery-point-offset-checkpoint").read() == {TP: 4}
    again.abandon()


def test_deleted_replicas_are_renamed_then_removed(manager, log):
    """LG-17, FN-1."""
    deleted(manager, TP, 1000)
    assert manager.get(TP) is None
    (pending,) = manager.path.glob("a-b-12.*-delete")
    assert len(pending.name) == len("a-b-12.") + 32 + len("-delete")
    with pytest.raises(LogStorageError, match="closed"):
        append(log, PAIR)
    assert remove(manager.take_expired(1000 + 59_999)) == 0
    assert remove(manager.take_expired(1000 + 60_000)) == 1
    assert not pending.exists()
    assert append(created(manager, TP, bytes(15) + b"2", config()), PAIR).log_end_offset == 2


def test_a_deleted_replica_that_somebody_removed_is_no_failure_of_the_disk(manager, log):
    """LG-17."""
    deleted(manager, TP, 0)
    [pending] = manager.path.glob("*-delete")
    shutil.rmtree(pending)
    assert remove(manager.take_expired(10**6)) == 1


def test_a_long_topic_name_is_cut_in_the_directory_of_its_deletion(manager):
    """FN-1."""
    tp = TopicPartition("x" * 240, 7)
    created(manager, tp, ID, config())
    deleted(manager, tp, 0)
    (pending,) = manager.path.glob("*-delete")
    assert len(pending.name) == 255  # FN-1


def test_a_log_that_failed_leaves_no_marker_and_the_others_are_closed(manager, log):
    other = append(created(manager, OTHER, ID, config()), PAIR)
    log._segments.active.path.unlink()
    log._segments.active.path.mkdir()  # opening it for writing fails from now on
    log._segments.active.close()
    with pytest.raises(LogStorageError, match="directory"):
        append(log, PAIR)
    with pytest.raises(LogStorageError, match="directory"):
        append(log, PAIR)
    manager.close(5)
    assert other.recovery_point == 2
    assert not (manager.path / MARKER).exists()


def test_a_checkpoint_is_written_while_the_loop_adds_and_removes_copies(manager, log):
    """In a thread: what it goes through there must not change under its hands."""

    class Removing(OpenedLog):
        """The loop has its turn while this one is looked at."""

        @property
        def log(self) -> Log:  # type: ignore[override]
            manager._futures.pop(OTHER, None)
            return self[0]

    manager._futures[TopicPartition("u", 0)] = Removing(log, ID)
    manager._futures[OTHER] = OpenedLog(log, ID)
    manager.checkpoints.write_recovery_points()
    assert not manager.futures.keys() & {OTHER}


def test_ct_26_strays_stay_over_restarts_and_too_many_are_an_error_that_says_what_to_do(manager, log, monkeypatch):
    """CT-26."""
    monkeypatch.setattr(log_directory, "MAX_STRAYS", 1)
    change = manager.change()
    manager.plan_deletion(TP, change, keep=True)
    change.take_away()
    manager.commit(change, 0)
    (stray,) = manager.path.glob("a-b-12.*-stray")
    assert manager.take_expired(2**60) == []
    manager.close(17)
    again = open_directory(manager.path)
    assert stray.exists()
    append(created(again, OTHER, ID, config()), PAIR)
    with pytest.raises(LogStorageError, match="move them away"):
        again.plan_deletion(OTHER, again.change(), keep=True)
    assert (len(manager.strays()), again.strays()) == (1, [stray.lstat().st_ctime])
    stray.rename(manager.path.parent / "looked at")
    assert again.strays() == []
    again.plan_deletion(OTHER, again.change(), keep=True)


def test_an_empty_replica_is_deleted_rather_than_kept(manager):
    created(manager, TP, ID, config())
    change = manager.change()
    manager.plan_deletion(TP, change, keep=True)
    assert change.pending[0].renamed.name.endswith("-delete")


def test_a_raised_log_start_is_told_once_a_crash_cannot_take_it_back_ft_23(manager, log):
    told = []
    manager.on_unsaved = lambda: told.append(log.kept_start_offset)
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(3)
    log.maybe_increment_log_start_offset(5)
    assert (log.log_start_offset, log.kept_start_offset) == (5, 0)
    assert told, "somebody is asked to save it"
    (saved,) = manager.checkpoints.save_log_starts()
    assert saved == (TP, log, 5)
    log.log_start_saved(5)
    assert log.kept_start_offset == 5
    assert manager.checkpoints.save_log_starts() == []
    manager.abandon()
    again = open_directory(manager.path)
    assert again.logs[TP].kept_start_offset == 5
    again.abandon()


def test_a_log_start_that_a_truncation_lowered_is_kept_no_higher(manager, log):
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(7)
    (saved,) = manager.checkpoints.save_log_starts()
    log.truncate_to(4)
    log.log_start_saved(saved[2])
    assert log.kept_start_offset == log.log_start_offset == 4
    append(log, PAIR)
    log.update_high_watermark(6)
    log.maybe_increment_log_start_offset(6)
    assert log.kept_start_offset == 4


def test_a_log_start_that_could_not_be_saved_is_saved_the_next_time(manager, log, monkeypatch):
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(3)
    with monkeypatch.context() as broken:
        broken.setattr(manager.checkpoints, "write_log_starts", lambda: manager.path.joinpath("no", "room").unlink())
        with pytest.raises(FileNotFoundError):
            manager.checkpoints.save_log_starts()
    assert manager.checkpoints.save_log_starts() == [(TP, log, 3)]
