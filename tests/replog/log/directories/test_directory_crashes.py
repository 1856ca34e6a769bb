"""A move between log directories, killed at every change of files, and what the next start makes of it (§7.7)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from replog.log.directories.log_manager import LogManager
from replog.log.files.deletion import remove
from replog.log.log import Log
from replog.topic import TopicPartition
from tests.replog.log.directories.moving import TP, copied, filled, move, place, start, swapped, told
from tests.replog.log.kills import killed_after


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one", tmp_path / "two"


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote, fsynced or not."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def restarted(directories: LogManager, *disks: Path) -> LogManager:
    directories.abandon()
    again = start(*disks, rng=2)
    plain = [disk for disk in disks if (disk / TP.directory_name).exists()]
    assert len(plain) == 1, "never two directories of the plain name, and never none"
    return again


def finish(directories: LogManager, target: Path) -> Log:
    """Go on with what the start found: a move under way, none, or a finished one."""
    if place(directories) != target:
        move(directories, TP, str(target))
        copied(directories)
        swapped(directories)
    log = directories.logs[TP]
    assert place(directories) == target
    return log


def every_crash(
    tmp_path: Path, prepare: Callable[[LogManager, Path], Callable[[], object]], least: int, step: int = 1
) -> None:
    """`prepare`, end what it returns after 0, 1, 2… changes of files, start; compare, finish the move, compare."""
    ended_where = set()
    for calls in range(0, 200, step):
        disks = tmp_path / f"{calls}-one", tmp_path / f"{calls}-two"
        directories = start(*disks)
        log_start, log_end, (*epochs, _), records = told(filled(directories))
        expected = log_start, log_end, tuple(epochs), records  # loading forgets an epoch without a record
        work = prepare(directories, disks[1])
        done = False
        with killed_after(calls):
            work()
            done = True
        again = restarted(directories, *disks)
        log = again.logs[TP]
        assert told(log) == expected, f"after {calls} changes of files"
        ended_where.add((log.directory.parent == disks[1], again.future(TP) is not None))
        assert told(finish(again, disks[1])) == expected
        again.close(1)
        last = start(*disks, rng=3)
        assert told(last.logs[TP]) == expected
        last.abandon()
        if done:
            assert calls >= least, "the work has become less; is it still all of it?"
            assert len(ended_where) > 1
            return
    raise AssertionError("the work never ends")


def swapping(directories: LogManager, target: Path) -> Callable[[], object]:
    move(directories, TP, str(target))
    copied(directories)
    return lambda: swapped(directories)


def copying(directories: LogManager, target: Path) -> Callable[[], object]:
    return lambda: (move(directories, TP, str(target)), copied(directories, slice_bytes=10_000), swapped(directories))


def calling_off(directories: LogManager, target: Path) -> Callable[[], object]:
    swapping(directories, target)
    return lambda: (move(directories, TP, str(place(directories))), remove(directories.take_expired(0)))


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize(("prepare", "least", "step"), [(swapping, 14, 1), (copying, 54, 3), (calling_off, 7, 1)])
def test_a_move_survives_a_crash_between_any_two_changes_of_files(tmp_path, prepare, least, step):
    """§7.7."""
    every_crash(tmp_path, prepare, least, step)


def test_each_step_of_a_swap_is_durable_before_the_next(disks, monkeypatch):
    """The order that the recovery of an interrupted swap relies on, at a loss of power too."""
    directories = start(*disks)
    filled(directories).flush()
    move(directories, TP, str(disks[1]))
    future = copied(directories).log
    steps, waits = list[str](), list[str]()
    swapping: list[TopicPartition] = []
    rename, fsync, swap = Path.rename, os.fsync, LogManager.swap

    def noted_rename(path: Path, target: Path) -> Path:
        steps.append(
            f"{path.parent.name}: {path.name[6:].partition('.')[2][32:]} to {target.name[6:].partition('.')[2][32:]}"
        )
        assert future.recovery_point == 24, "it is durable itself"
        assert "a-b 12 24" in (disks[1] / "recovery-point-offset-checkpoint").read_text()
        assert "a-b 12 3" in (disks[1] / "log-start-offset-checkpoint").read_text()
        return rename(path, target)

    def noted_fsync(fd: int) -> None:
        directory = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if directory in disks and steps and not steps[-1].endswith("fsync"):  # else it is that of a checkpoint
            steps.append(f"{directory.name}: fsync")
        if swapping:
            waits.append(directory.name)
        fsync(fd)

    def noted_swap(directories: LogManager, tp: TopicPartition, now_ms: int) -> Log:
        swapping.append(tp)
        try:
            return swap(directories, tp, now_ms)
        finally:
            swapping.clear()

    monkeypatch.setattr(Path, "rename", noted_rename)
    monkeypatch.setattr("os.fsync", noted_fsync)
    monkeypatch.setattr(LogManager, "swap", noted_swap)
    swapped(directories)
    assert waits == ["one", "two"], "and while everybody waits, for nothing else"
    assert steps == ["one:  to -delete", "one: fsync", "two: -future to ", "two: fsync"]


def test_the_copy_of_a_replica_that_was_deleted_goes_too(disks):
    """A start finishes a swap that was decided: only the identifier of the deleted directory says so."""
    directories = start(*disks)
    filled(directories)
    move(directories, TP, str(disks[1]))
    copied(directories)
    directories.abandon()
    (disks[0] / "a-b-12").rename(disks[0] / f"a-b-12.{'0' * 32}-delete")
    last = start(*disks)
    assert (last.get(TP), last.future(TP)) == (None, None)
    assert not [path for disk in disks for path in disk.glob("a-b-12*") if not path.name.endswith("-delete")]
