"""Very many logs share a wait for their file system, or, if that is not to be had, wait for each of their files."""

import os
from pathlib import Path

import pytest

from replog.log.directories.changes import NewReplica
from replog.log.directories.log_manager import LogManager
from replog.log.epochs import LeaderEpochCache
from replog.log.files import filesystem
from replog.log.files.filesystem import MANY
from replog.topic import TopicPartition
from tests.replog.log.batches import append
from tests.replog.log.directories.moving import CONFIG, ID, PAIR, planned, start
from tests.replog.log.directories.test_changes import carried_out, fsyncs

REPLICAS = [TopicPartition("t", number) for number in range(MANY)]


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    return start(tmp_path / "disk")


@pytest.mark.parametrize("answer", [True, False])
def test_very_many_replicas_share_one_wait_for_the_file_system_or_wait_for_each(manager, monkeypatch, answer):
    """The system may not offer that, or something of another's may be lost: then every fsync tells."""
    disk, there = manager.directories[0].path, list[int]()

    def sync(fd: int) -> bool:
        assert os.readlink(f"/proc/self/fd/{fd}") == str(disk)
        there.append(sum(path.stat().st_size > 0 for path in disk.glob("*/*")))
        return answer

    monkeypatch.setattr(filesystem, "sync_filesystem", sync)
    many = {tp: NewReplica(ID, CONFIG, leads_in=0) for tp in REPLICAS}
    with fsyncs() as synced:
        carried_out(manager, planned(manager, new=many))
    assert there == [2 * MANY], "topic ids and epochs, written before anything is waited for"
    assert len(synced) == (0 if answer else 3 * MANY + 1)
    assert len(manager.logs) == MANY


@pytest.mark.parametrize("answers", [[True, True], [True, False], [False]])
def test_very_many_new_leaders_share_two_waits_for_the_file_system_or_wait_for_each(manager, monkeypatch, answers):
    """An election wave: thousands of epochs, two fsyncs each, kept a broker from its new roles for twenty seconds."""
    carried_out(manager, planned(manager, new=dict.fromkeys(REPLICAS, NewReplica(ID, CONFIG))))
    disk, left, there = manager.directories[0].path, list(answers), list[tuple[int, int]]()

    def sync(fd: int) -> bool:
        there.append((len(list(disk.glob("*/*.tmp"))), len(list(disk.glob("*/leader-epoch-checkpoint")))))
        return left.pop(0)

    monkeypatch.setattr(filesystem, "sync_filesystem", sync)
    with fsyncs() as synced:
        carried_out(manager, planned(manager, leading=dict.fromkeys(REPLICAS, 3)))
    assert there == [(MANY, 0), (0, MANY)][: len(answers)], "contents first, then names"
    assert len(synced) == (2 - answers.count(True)) * MANY
    assert {LeaderEpochCache.load(path).entries for path in disk.glob("*/leader-epoch-checkpoint")} == {((3, 0),)}


@pytest.mark.parametrize("answer", [True, False])
def test_very_many_logs_are_closed_with_one_wait_for_the_file_system_or_one_for_each_file(manager, monkeypatch, answer):
    """FN-3: an orderly stop with 5,000 replicas took half a minute, beside other fsync load more than one."""
    carried_out(manager, planned(manager, new=dict.fromkeys(REPLICAS, NewReplica(ID, CONFIG))))
    for log in manager.logs.values():
        append(log, PAIR)
    disk, there = manager.directories[0].path, list[int]()

    def sync(_: int) -> bool:
        there.append(len(list(disk.glob("*/*2.snapshot"))))
        return answer

    monkeypatch.setattr(filesystem, "sync_filesystem", sync)
    with fsyncs() as synced:
        manager.close(1)
    assert there[-1] == MANY, "all is written before anything is waited for; epochs were before it"
    assert sum(path.endswith(".log") for path in synced) == (0 if answer else 2 * MANY)
    assert sum(path.endswith(".snapshot") for path in synced) == (0 if answer else MANY)
    again = start(disk)
    assert again.directories[0].clean
    assert {(log.recovery_point, log.log_end_offset) for log in again.logs.values()} == {(2, 2)}
