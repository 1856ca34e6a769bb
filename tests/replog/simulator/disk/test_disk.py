"""The simulated disks: whose call it is, crashes at any change, full and failing disks, what a power loss leaves."""

import errno
import fcntl
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replog.log.files import filesystem
from replog.log.files.opening import fsync_directory, write_atomically
from replog.simulator.runtime.process import DEAD, WALL_START_MS, Killed, SimulatedProcess
from tests.replog.simulator.hosts import Host


def outcomes(tmp_path: Path, work: Callable[[Path], None], seeds: int = 40) -> list[dict[str, bytes]]:
    """What power losses leave after `work`: every file under its path."""
    left = []
    for seed in range(seeds):
        with Host(tmp_path / str(seed), seed) as host:
            host.do(work, host.home)
            host.lose_power(seed)
        assert host.disk.counts.get("names that could not be lost", 0) == 0
        files = (path for path in sorted(host.home.rglob("*")) if path.is_file())
        left.append({str(path.relative_to(host.home)): path.read_bytes() for path in files})
        assert not list((host.home.parent / ".trash" / "broker-1").iterdir())
    return left


def append(path: Path, data: bytes, *, sync: bool = False) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(fd, data, os.fstat(fd).st_size)
    if sync:
        os.fsync(fd)
    os.close(fd)


def test_outside_of_it_and_in_no_process_everything_is_as_ever(host, tmp_path):
    before = os.open
    append(host.home / "file", b"from nobody")
    append(tmp_path / "file", b"elsewhere")
    host.do(append, tmp_path / "file", b", in a process")
    assert (host.home / "file").read_bytes() == b"from nobody"
    assert (tmp_path / "file").read_bytes() == b"elsewhere, in a process"
    assert os.open is before
    assert host.disk.operations == 0


def test_afterwards_the_functions_are_those_of_before(tmp_path):
    before = {name: getattr(os, name) for name in os.__all__}
    with Host(tmp_path):
        assert os.open is not before["open"]
    assert {name: getattr(os, name) for name in os.__all__} == before


def test_a_dead_process_changes_nothing_and_its_locks_are_free(host):
    lock = host.do(os.open, host.home / "lock", os.O_RDWR | os.O_CREAT)
    host.do(fcntl.flock, lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file = host.do((host.home / "text").open, "w")
    host.do(file.write, "buffered")
    host.loop.kill(host.process)
    other = os.open(host.home / "lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    refused: list[tuple[Any, ...]] = [
        (os.open, host.home / "new", os.O_RDWR | os.O_CREAT),
        (os.pwrite, lock, b"x", 0),
        (os.close, lock),
        (os.unlink, host.home / "lock"),
        (os.mkdir, host.home / "directory"),
        ((host.home / "text").write_text, "x"),
        (shutil.rmtree, host.home),
        (os.fsync, other),
    ]
    for call, *arguments in refused:
        with pytest.raises(Killed):
            host.do(call, *arguments)
    assert other in (lock, lock + 1)  # a new file has the dead one's descriptor
    file.close()  # as a collector might: it must not close that
    assert os.fstat(other).st_size == 0
    assert sorted(path.name for path in host.home.iterdir()) == ["lock", "text"]
    os.close(other)


def test_a_process_is_killed_at_its_nth_change(host):
    seen = []

    def work() -> None:
        for number in range(1000):
            append(host.home / f"file {number % 3}", b"x" * 10)
            seen.append(number)

    sizes = set()
    for operation, whole in {1: 0, 2: 0, 3: 1, 4: 1, 7: 3, 8: 4, 100: 96}.items():  # each file is created first
        seen.clear()
        for path in host.home.iterdir():
            path.unlink()
        host.disk.kill_at(host.process, operation)
        with pytest.raises(Killed):
            host.do(work)
        assert host.process.state is DEAD
        assert len(seen) == whole
        sizes |= {path.stat().st_size % 10 for path in host.home.iterdir()}
        host.boot()
    assert len(sizes) > 1  # the last write was cut short
    assert host.disk.counts["killed at a change"] == 7


def test_a_full_disk_refuses_what_takes_room_and_a_broken_one_every_change(host):
    def error_of(call: Callable[..., Any], *arguments: Any) -> int:
        try:
            host.do(call, *arguments)
        except OSError as error:
            return error.errno or 0
        return 0

    host.do(append, host.home / "old", b"data")
    fd = host.do(os.open, host.home / "old", os.O_RDWR)
    cases: list[tuple[bool, Callable[..., Any], Any]] = [
        (True, append, (host.home / "new", b"data")),
        (True, os.mkdir, (host.home / "directory",)),
        (False, os.ftruncate, (fd, 2)),
        (False, os.fsync, (fd,)),
        (False, os.rename, (host.home / "old", host.home / "renamed")),
        (False, os.unlink, (host.home / "renamed",)),
    ]
    host.disk.fail("broker-1", errno.EIO)
    for _, call, arguments in cases:
        assert error_of(call, *arguments) == errno.EIO
    host.disk.fail("broker-1", errno.ENOSPC)
    assert host.disk.failing("broker-1")
    written = [host.do(_write_or_zero, fd, b"0123456789") for _ in range(200)]
    assert 0 < sum(count > 0 for count in written) < 60
    assert max(written) < 10
    for refused, call, arguments in cases:
        assert error_of(call, *arguments) == (errno.ENOSPC if refused else 0)
    assert host.do(shutil.disk_usage, host.home).free == 0
    host.disk.heal("broker-1")
    assert host.do(shutil.disk_usage, host.home).free == 1 << 52, "whatever the machine has"
    assert error_of(append, host.home / "new", b"data") == 0
    assert not host.disk.failing("broker-1")


def _write_or_zero(fd: int, data: bytes) -> int:
    try:
        return os.pwrite(fd, data, 0)
    except OSError:
        return 0


def test_what_was_synced_survives_and_what_was_not_survives_in_part(tmp_path):
    def work(home: Path) -> None:
        append(home / "log", b"synced", sync=True)
        fsync_directory(home)
        for letter in (b"a", b"b", b"c"):
            append(home / "log", letter * 4)

    left = {files["log"] for files in outcomes(tmp_path, work, 80)}
    assert all(content.startswith(b"synced") for content in left)
    assert {b"synced", b"syncedaaaa", b"syncedaaaabbbb", b"syncedaaaabbbbcccc"} < left
    assert b"syncedaa" in left or b"synceda" in left  # torn
    assert any(b"\0" in content for content in left)  # a hole


def test_truncating_and_overwriting_may_be_undone(tmp_path):
    def work(home: Path) -> None:
        append(home / "log", b"0123456789", sync=True)
        fsync_directory(home)
        fd = os.open(home / "log", os.O_RDWR)
        os.ftruncate(fd, 6)
        os.pwrite(fd, b"abc", 4)
        os.pwritev(fd, [b"de", b"f"], 7)
        os.close(fd)

    left = {files["log"] for files in outcomes(tmp_path, work, 120)}
    assert {b"0123456789", b"012345", b"0123abc", b"0123abcdef"} < left
    whole = {content for content in left if b"\0" not in content}
    torn = {b"0123a5", b"0123ab", b"0123abcd", b"0123abcde"}
    assert whole <= {b"0123456789", b"012345", b"0123abc", b"0123abcdef"} | torn
    assert whole & torn


def test_new_files_may_be_missing_empty_or_partly_there_until_file_and_directory_are_synced(tmp_path):
    def work(home: Path) -> None:
        append(home / "synced", b"whole", sync=True)
        append(home / "not synced", b"whole")

    left = outcomes(tmp_path, work)
    assert any(not files for files in left)  # the names were not
    assert {files["synced"] for files in left if "synced" in files} == {b"whole"}
    assert {b"", b"whole"} < {files["not synced"] for files in left if "not synced" in files}
    assert all("synced" in files for files in left if "not synced" in files)  # names keep their order


def test_a_file_that_was_replaced_atomically_is_the_old_or_the_new_one(tmp_path):
    def work(home: Path) -> None:
        write_atomically(home / "checkpoint", b"old")
        write_atomically(home / "checkpoint", b"new, and longer")

    def not_synced(home: Path) -> None:
        write_atomically(home / "checkpoint", b"old")
        append(home / "temporary", b"new")
        (home / "temporary").rename(home / "checkpoint")

    left = outcomes(tmp_path, work)
    assert {files["checkpoint"] for files in left} <= {b"old", b"new, and longer"}
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    assert {b"old", b"new", b""} < {files["checkpoint"] for files in outcomes(tmp_path, not_synced)}


def test_renames_and_removals_of_one_directory_are_undone_from_the_end(tmp_path):
    def work(home: Path) -> None:
        (home / "a").mkdir()
        (home / "b").mkdir()
        append(home / "a" / "log", b"data", sync=True)
        for directory in (home / "a", home):
            fsync_directory(directory)
        (home / "a" / "log").rename(home / "a" / "log.1")
        append(home / "a" / "log", b"newer", sync=True)
        (home / "a" / "log.1").unlink()
        (home / "a").rename(home / "a.gone")
        (home / "b").rmdir()
        shutil.rmtree(home / "a.gone")

    left = outcomes(tmp_path, work, 80)
    states = {tuple(sorted(files)) for files in left}
    assert ("a/log",) in states
    assert () in states
    assert {("a/log.1",), ("a/log", "a/log.1"), ("a.gone/log",)} & states
    for files in left:
        assert len({name.partition("/")[0] for name in files}) <= 1
        for name, content in files.items():
            first = name.endswith("log.1") or not any(other.endswith("log.1") for other in files)
            assert content in ((b"data", b"newer") if first else (b"newer",))


def test_what_a_kill_leaves_is_whole_but_a_later_power_loss_may_still_take_it(tmp_path):
    left = []
    for seed in range(40):
        with Host(tmp_path / str(seed)) as host:
            host.do(append, host.home / "log", b"one")
            host.do(fsync_directory, host.home)
            host.loop.kill(host.process)
            assert (host.home / "log").read_bytes() == b"one"
            host.boot()
            host.do(append, host.home / "log", b"two")
            host.lose_power(seed)
            left.append((host.home / "log").read_bytes())
            host.lose_power(seed + 1)
            assert (host.home / "log").read_bytes() == left[-1]
    assert {b"", b"one", b"onetwo"} < set(left)


def test_one_hosts_power_loss_leaves_the_others_alone(host, tmp_path):
    other = SimulatedProcess("broker-2")
    (tmp_path / "broker-2").mkdir()
    other.context.run(append, tmp_path / "broker-2" / "log", b"data")
    for seed in range(9):
        host.lose_power(seed)
    assert (tmp_path / "broker-2" / "log").read_bytes() == b"data"


def test_a_directory_that_somebody_else_took_away_does_not_come_back(tmp_path):
    for seed in range(30):
        with Host(tmp_path / str(seed)) as host:

            def work(home: Path = host.home) -> None:
                (home / "t-0").mkdir()
                append(home / "t-0" / "log", b"data")
                (home / "t-0" / "log").rename(home / "t-0" / "log.1")
                (home / "t-0" / "log.1").unlink()

            host.do(work)
            host.loop.kill(host.process)
            shutil.rmtree(host.home / "t-0")
            (host.home / "t-0").mkdir()
            host.lose_power(seed)
            assert not list(host.home.glob("*/*"))


def test_files_opened_by_name_are_seen_too(tmp_path):
    def work(home: Path) -> None:
        (home / "text").write_text("one\n")
        with (home / "text").open("a+", encoding="ascii") as file:
            file.write("two\n")
            file.flush()
            os.fsync(file.fileno())
            fsync_directory(home)
            file.seek(0)
            assert file.read() == "one\ntwo\n"
            file.truncate(0)
            file.write("three")
        with (home / "text").open("rb") as binary:
            assert binary.read() == b"three"

    assert {b"one\ntwo\n", b"", b"three"} < {files["text"] for files in outcomes(tmp_path, work)}


def test_a_files_time_is_virtual_and_a_directorys_order_its_names(host):
    def work() -> list[Any]:
        for name in ("b", "c", "a"):
            append(host.home / f"{name}.log", b"data")
        return [os.listdir(host.home), [entry.name for entry in os.scandir(host.home)], (host.home / "b.log").stat()]

    host.loop.run_until(12.5)
    names, entries, status = host.do(work)
    assert names == entries == ["a.log", "b.log", "c.log"]
    written_s = status.st_mtime - WALL_START_MS / 1000
    assert written_s == status.st_mtime_ns / 1e9 - WALL_START_MS / 1000
    assert 12.5 < written_s < 12.6  # writing took its time
    assert status.st_size == 4
    assert host.do(os.path.isdir, host.home)


def test_the_number_of_a_process_is_as_long_in_every_run(host):
    """It is written into lock files, and a byte more takes a nanosecond more."""
    assert host.do(os.getpid) == 1 != os.getpid()


def test_a_flipped_bit(host):
    append(host.home / "file", bytes(100))
    position = host.disk.flip_bit(host.home / "file", random.Random(1))
    data = (host.home / "file").read_bytes()
    assert [i for i, byte in enumerate(data) if byte] == [position]
    assert data[position or 0].bit_count() == 1
    append(host.home / "empty", b"")
    assert host.disk.flip_bit(host.home / "empty", random.Random(1)) is None


def test_a_sync_of_the_whole_disk_makes_everything_durable_and_a_failing_disk_offers_none(tmp_path):
    """As `syncfs` does: contents and names, in every directory."""

    def work(home: Path) -> None:
        fd = os.open(home, os.O_RDONLY)
        os.mkdir(home / "t-0")
        append(home / "t-0" / "file", b"content")
        append(home / "gone", b"")
        os.rename(home / "gone", home / "renamed")
        assert filesystem.sync_filesystem(fd)
        os.close(fd)

    for files in outcomes(tmp_path, work):
        assert files == {"t-0/file": b"content", "renamed": b""}
    with Host(tmp_path) as failing:
        failing.disk.fail("broker-1", errno.EIO)
        assert not failing.do(lambda: filesystem.sync_filesystem(os.open(failing.home, os.O_RDONLY)))
