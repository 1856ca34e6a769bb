"""What a change of metadata does to the files: planned, carried out, and taken over (EP-3, LG-17, CT-18)."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replog.log.directories.changes import LogChange, NewReplica
from replog.log.directories.checkpoints import Checkpoints
from replog.log.directories.log_manager import LogManager
from replog.log.epochs import LeaderEpochCache
from replog.log.errors import LogStorageError, RetriableLogError
from replog.log.files import filesystem
from replog.log.files.deletion import remove
from replog.topic import TopicPartition
from tests.replog.log.batches import append
from tests.replog.log.directories.moving import CONFIG, ID, PAIR, TP, carry_out, created, planned, start
from tests.replog.log.files.test_open_files import no_descriptors_left

OTHER_ID = bytes(15) + b"2"
MANY = [TopicPartition("t", number) for number in range(5)]


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    return start(tmp_path / "disk")


def carried_out(manager: LogManager, change: LogChange) -> LogChange:
    carry_out(change)
    manager.commit(change, 0)
    return change


@contextmanager
def fsyncs() -> Iterator[list[str]]:
    """The files and directories that are fsynced, in order."""
    real, synced = os.fsync, list[str]()

    def recorded(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    os.fsync = recorded
    try:
        yield synced
    finally:
        os.fsync = real


def test_nothing_is_written_before_it_is_run_and_nothing_is_here_before_it_is_committed(manager):
    disk = manager.directories[0].path
    before = sorted(os.listdir(disk))
    change = planned(manager, new={TP: NewReplica(ID, CONFIG)})
    assert sorted(os.listdir(disk)) == before
    carry_out(change)
    assert manager.get(TP) is None
    manager.commit(change, 0)
    assert manager.topic_id(TP) == ID
    assert manager.get(TP) is not None


def test_the_replicas_of_one_change_share_the_fsync_of_their_directory(manager):
    """A replica that follows costs two of its own, one that leads one more: the topic id, the names, the epoch."""
    disk = str(manager.directories[0].path)
    with fsyncs() as synced:
        carried_out(manager, planned(manager, new={tp: NewReplica(ID, CONFIG) for tp in MANY}))
    assert len(synced) == 2 * len(MANY) + 1
    assert synced[-1] == disk
    assert synced.count(disk) == 1
    with fsyncs() as synced:
        carried_out(manager, planned(manager, leading=dict.fromkeys(MANY, 3)))
    assert len(synced) == 2 * len(MANY)
    assert disk not in synced
    others = {TopicPartition("u", number): NewReplica(ID, CONFIG, leads_in=0) for number in range(5)}
    with fsyncs() as synced:
        carried_out(manager, planned(manager, new=others))
    assert len(synced) == 3 * len(MANY) + 1


def test_linux_offers_one_wait_for_a_file_system_and_says_when_it_failed(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert filesystem.sync_filesystem(fd)
    finally:
        os.close(fd)
    assert not filesystem.sync_filesystem(-1)


def test_what_a_crash_left_of_a_creation_is_passed_over_and_made_anew(manager):
    """Nothing was fsynced: of the topic id there may be anything, and there are no records."""
    disk = manager.directories[0].path
    manager.abandon()
    for tp, left in zip(MANY, (None, b"", b"version: 0\ntopic_id: AAAA", bytes(42)), strict=False):
        (disk / tp.directory_name).mkdir()
        (disk / tp.directory_name / "00000000000000000000.log").touch()
        if left is not None:
            (disk / tp.directory_name / "partition.metadata").write_bytes(left)
    again = start(disk)
    assert not again.logs
    assert not again.failed
    carried_out(again, planned(again, new={tp: NewReplica(ID, CONFIG, leads_in=1) for tp in MANY}))
    assert [again.topic_id(tp) for tp in MANY] == [ID] * len(MANY)


def test_a_log_whose_records_are_all_gone_is_no_interrupted_creation(manager):
    """Its offsets were given to records: they must not be given again."""
    log = append(created(manager, TP, ID, CONFIG), PAIR)
    log.truncate_fully_and_start_at(log.log_end_offset)
    manager.abandon()
    (log.directory / "partition.metadata").write_bytes(b"version: 0\n")
    assert list(start(manager.directories[0].path).failed) == [TP]


def test_records_without_a_topic_id_are_neither_taken_for_a_new_replica_nor_removed(manager):
    disk = manager.directories[0].path
    append(created(manager, TP, ID, CONFIG), PAIR)
    manager.abandon()
    damaged = disk / TP.directory_name / "partition.metadata"
    damaged.write_bytes(b"version: 0\n")
    again = start(disk)
    assert list(again.failed) == [TP]
    again.abandon()
    damaged.rename(disk / "elsewhere")
    (disk / TP.directory_name).rename(disk / "another")
    again = start(disk)
    (disk / "another").rename(disk / TP.directory_name)
    change = carried_out(again, planned(again, new={TP: NewReplica(ID, CONFIG)}))
    assert "in the way, with records in it; move it away" in change.failures[TP].message
    assert (disk / TP.directory_name / "00000000000000000000.log").stat().st_size


def test_a_replica_that_leads_from_the_beginning_has_its_epoch_before_it_is_here(manager):
    """ST-13, EP-3."""
    carried_out(manager, planned(manager, new={TP: NewReplica(ID, CONFIG, leads_in=4)}))
    log = manager.logs[TP]
    assert LeaderEpochCache.load(log.directory / "leader-epoch-checkpoint").entries == log.epochs.entries == ((4, 0),)


def test_an_epoch_is_noted_when_it_is_planned_and_durable_when_that_was_run(manager):
    """ST-13: from the plan on no record of an older epoch may come behind it."""
    log = append(created(manager, TP, ID, CONFIG), PAIR, epoch=1)
    change = planned(manager, leading={TP: 2})
    path = log.directory / "leader-epoch-checkpoint"
    assert log.epochs.entries == ((1, 0), (2, 2))
    assert LeaderEpochCache.load(path).entries == ((1, 0),)
    with pytest.raises(ValueError, match="leader epoch 1 is below 2"):
        append(log, PAIR, epoch=1)
    carry_out(change)
    assert LeaderEpochCache.load(path).entries == ((1, 0), (2, 2))
    with fsyncs() as synced:
        log.assign_epoch_start(2)
    assert not synced, "it was durable"


def test_deleted_replicas_share_the_fsync_of_their_directory_and_one_checkpoint(manager):
    for tp in MANY:
        created(manager, tp, ID, CONFIG)
    disk = manager.directories[0].path
    manager.checkpoint(Checkpoints.write_recovery_points)
    change = planned(manager, MANY)
    assert not manager.logs, "they are not here from the plan on"
    assert all((disk / tp.directory_name).exists() for tp in MANY)
    with fsyncs() as synced:
        carried_out(manager, change)
    assert sorted(path.name.partition(".")[0] for path in disk.glob("*-delete")) == [tp.directory_name for tp in MANY]
    checkpoints = [path for path in synced if path != str(disk)]
    assert sorted(Path(path).name.removesuffix(".tmp") for path in checkpoints) == [
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert "t 0" not in (disk / "recovery-point-offset-checkpoint").read_text()
    remove(manager.take_expired(CONFIG.file_delete_delay_ms))
    assert not list(disk.glob("*-delete"))


def test_a_replica_may_be_followed_by_one_of_its_name_in_the_same_change(manager):
    """CT-18, HW-12: it inherits nothing."""
    old = append(created(manager, TP, ID, CONFIG), PAIR, PAIR)
    old.update_high_watermark(4)
    manager.checkpoint(Checkpoints.write_high_watermarks)
    carried_out(manager, planned(manager, [TP], {TP: NewReplica(OTHER_ID, CONFIG, leads_in=0)}))
    new = manager.logs[TP]
    assert (manager.topic_id(TP), new.log_end_offset) == (OTHER_ID, 0)
    append(new, PAIR)
    manager.abandon()
    again = start(manager.directories[0].path).logs[TP]
    assert (again.log_end_offset, again.high_watermark) == (2, 0)


def test_a_flush_that_is_late_does_not_touch_the_next_replica_of_the_name(manager):
    """What a truncation left to be done would take its snapshots away (PS-8)."""
    old = append(created(manager, TP, ID, CONFIG), PAIR)
    old.on_flush_due = lambda: None
    old.truncate_to(0)
    late = old.flush_task()
    assert late is not None
    carried_out(manager, planned(manager, [TP], {TP: NewReplica(OTHER_ID, CONFIG)}))
    new = append(manager.logs[TP], *[PAIR] * 20)
    snapshots = sorted(new.directory.glob("*.snapshot"))
    assert snapshots
    late.run()
    assert sorted(new.directory.glob("*.snapshot")) == snapshots


def test_without_a_descriptor_a_replica_is_left_out_and_comes_later(manager):
    """EMFILE says nothing against the disk, and nothing about other replicas."""
    wanted = {TP: NewReplica(ID, CONFIG, leads_in=0)}
    change = planned(manager, new=wanted)
    with no_descriptors_left():
        carried_out(manager, change)
    assert list(change.failures) == [TP]
    assert isinstance(change.failures[TP], RetriableLogError)
    assert manager.get(TP) is None
    again = carried_out(manager, planned(manager, new=wanted))
    assert not again.failures
    assert manager.topic_id(TP) == ID


def test_what_a_failed_disk_does_not_take_is_no_passing_trouble(manager):
    disk = manager.directories[0].path
    (disk / MANY[1].directory_name).write_text("in the way")
    change = planned(manager, new={tp: NewReplica(ID, CONFIG) for tp in MANY})
    carried_out(manager, change)
    assert list(change.failures) == [MANY[1]]
    assert not isinstance(change.failures[MANY[1]], RetriableLogError)
    assert sorted(manager.logs) == [tp for tp in MANY if tp != MANY[1]], "the others are here"


def failing_rename(error: int) -> Callable[[Path, Path], None]:
    def rename(self: Path, target: Path) -> None:
        raise OSError(error, os.strerror(error), str(self))

    return rename


def test_a_replica_that_a_failed_disk_keeps_is_an_error(manager, monkeypatch):
    created(manager, TP, ID, CONFIG)
    monkeypatch.setattr(Path, "rename", failing_rename(errno.EIO))
    with pytest.raises(LogStorageError, match="Input/output"):
        carry_out(planned(manager, [TP]))


def test_a_replica_that_cannot_go_keeps_its_name_and_nobody_else_and_goes_the_next_time(manager, monkeypatch):
    """D57: as where somebody has taken the directory's permissions."""
    gone = created(manager, MANY[1], ID, CONFIG)
    shutil.rmtree(gone.directory)
    log = created(manager, TP, ID, CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", failing_rename(errno.EACCES))
        change = planned(manager, [TP], new={MANY[0]: NewReplica(ID, CONFIG)})
        carried_out(manager, change)
    assert "look to its owner" in change.failures[TP].message
    assert set(manager.logs) == {MANY[0], MANY[1], TP}
    assert (manager.topic_id(TP), log.failure is not None) == (ID, True)
    carried_out(manager, again := planned(manager, [TP, MANY[1]]))
    assert (again.failures, set(manager.logs)) == ({}, {MANY[0]}), "a directory that is gone is gone"
    assert not log.directory.with_name(TP.directory_name).exists()


def test_everything_is_written_before_the_disk_is_first_waited_for(manager, monkeypatch):
    """So one wait serves most of it: a disk that takes ten milliseconds would take half a minute for a thousand."""
    disk, written, real = manager.directories[0].path, list[int](), os.fsync

    def recorded(fd: int) -> None:
        written.append(sum(path.stat().st_size > 0 for path in disk.glob("*/*")))
        real(fd)

    monkeypatch.setattr(os, "fsync", recorded)
    carried_out(manager, planned(manager, new={tp: NewReplica(ID, CONFIG, leads_in=0) for tp in MANY}))
    assert written[0] == 2 * len(MANY), "topic ids and epochs"
    written.clear()
    carried_out(manager, planned(manager, leading=dict.fromkeys(MANY, 3)))
    assert written[0] == 3 * len(MANY), "new epochs beside them"
