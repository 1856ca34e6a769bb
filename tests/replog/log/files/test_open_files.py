"""Which files of logs are open: those used last, within a limit, and none that nobody can do without."""

import contextlib
import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from replog.log.errors import LogStorageError, TooManyOpenFiles
from replog.log.files.open_files import OPEN_FILES, OpenFile, OpenFiles, sync_all, with_room
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.topic import TopicPartition
from tests.replog.log.batches import NO_LIMIT, append, client_batch, config, files_of, open_log
from tests.replog.log.directories.moving import created, deleted, open_directory

SEGMENTS = 30
SETTINGS: dict[str, Any] = {"segment_bytes": 300, "index_interval_bytes": 50}


def held(directory: Path) -> list[str]:
    """The files below `directory` that this process has open."""
    names = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(Path(name).name for name in names if name.startswith(f"{directory}/"))


@pytest.fixture(autouse=True)
def open_files() -> Iterator[OpenFiles]:
    """Eight at once, in each of these tests."""
    token = OPEN_FILES.set(OpenFiles(8))
    yield OPEN_FILES.get()
    OPEN_FILES.reset(token)


def made(directory: Path, count: int) -> list[OpenFile]:
    files = [OpenFile(directory / f"{number:02d}") for number in range(count)]
    for file in files:
        file.create()
    return files


def test_the_file_used_least_recently_is_closed_and_opened_again_when_it_is_used(tmp_path):
    files = made(tmp_path, 10)
    assert held(tmp_path) == [f"{number:02d}" for number in range(2, 10)]
    assert files[2].read(0, 1) == b""
    assert files[0].size() == 0
    assert held(tmp_path) == ["00", "02", *(f"{number:02d}" for number in range(4, 10))]


def test_a_file_in_use_stays_open_however_many_others_are_opened(tmp_path):
    (first,) = made(tmp_path, 1)
    with first as fd:
        for number in range(20):
            OpenFile(tmp_path / f"other {number}").create()
        assert os.fstat(fd).st_ino == os.stat(first.path).st_ino
        first.close()
        assert "00" in held(tmp_path), "somebody uses it"
    assert "00" not in held(tmp_path)
    assert first.size() == 0


def test_files_with_unsynced_data_are_closed_last(tmp_path, open_files):
    unsynced = made(tmp_path, 3)
    for file in unsynced:
        file.write([b"x"], 0, promised=True)
    for number in range(50):
        OpenFile(tmp_path / f"other {number}").create()
    assert {"00", "01", "02"} < set(held(tmp_path))
    assert open_files.to_sync() == []


def test_those_with_unsynced_data_are_synced_before_they_take_all_the_room(tmp_path, open_files):
    files = made(tmp_path, 7)
    for file in files:
        file.write([b"x"], 0, promised=True)
    assert open_files.to_sync() == files[:3]
    sync_all(open_files.to_sync())
    assert open_files.to_sync() == []
    OpenFile(tmp_path / "other").create()
    OpenFile(tmp_path / "another").create()
    assert not any(file.unsynced for file in files[:3])
    assert all(file.unsynced and file.fd >= 0 for file in files[3:])


def test_what_was_closed_with_unsynced_data_is_synced_first_of_all(tmp_path, open_files):
    files = made(tmp_path, 10)
    for file in files:
        file.write([b"x"], 0, promised=True)
    assert len(open_files) == 8
    first, second = closed = [file for file in files if file.fd < 0]
    assert set(open_files.to_sync()[:2]) == set(closed)
    second.close()
    os.unlink(first.path)
    sync_all(open_files.to_sync())
    assert open_files.to_sync() == [first], "one that was removed meanwhile is passed over"
    first.close()
    assert open_files.to_sync() == []


def test_a_write_error_is_reported_through_the_descriptor_that_wrote(tmp_path):
    """SG-13: a sealed segment is fsynced by the descriptor that has written it."""
    log = open_log(tmp_path, **SETTINGS)
    append(log, client_batch(b"a" * 200))
    sealed = log._segments.active
    with sealed.file as fd:
        written = fd
    append(log, client_batch(b"b" * 200))
    assert log._segments.active is not sealed
    full = os.open("/dev/full", os.O_RDWR)  # which refuses fsync
    os.dup2(full, written)
    os.close(full)
    task = log.flush_task(log._segments.active.base_offset)
    assert task is not None
    with pytest.raises(Exception, match="Invalid argument"):
        task.run()


def test_threads_never_meet_another_file_under_their_descriptor(tmp_path):
    files = made(tmp_path, 24)
    for number, file in enumerate(files):
        file.write([bytes([number]) * 64], 0, promised=bool(number % 2))
    wrong: list[int] = []

    def read(start: int) -> None:
        for step in range(3000):
            number = (start + step * 7) % len(files)
            if files[number].read(0, 64) != bytes([number]) * 64:
                wrong.append(number)
            if step % 97 == 0:
                files[number].sync()

    with ThreadPoolExecutor(6) as threads:
        for reading in [threads.submit(read, start) for start in range(6)]:
            reading.result()
    assert wrong == []
    assert len(held(tmp_path)) <= 8 + 6


def test_files_of_logs_make_room_for_others_and_else_it_is_said_what_to_do(tmp_path):
    made(tmp_path, 8)
    refusals = 2

    def opening() -> str:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return "opened"

    assert with_room(tmp_path, opening) == "opened"
    assert len(held(tmp_path)) == 2
    refusals = 100
    with pytest.raises(TooManyOpenFiles, match=r"raise the limit of descriptors \(ulimit -n") as refused:
        with_room(tmp_path, opening)
    assert refused.value.retriable
    assert held(tmp_path) == []


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path, **SETTINGS)
    number = 0
    while len(log.segments) < SEGMENTS:
        append(log, client_batch(b"a", b"b", timestamps=[1000 + number, 1001 + number]), epoch=number // 9)
        number += 1
    return log


@pytest.mark.parametrize("clean", [True, False])
def test_loading_leaves_no_file_of_a_sealed_segment_open(log, clean):
    """IX-8: many closed segments cost no descriptors, though each was looked at."""
    log.close() if clean else log.abandon()
    assert held(log.directory) == []
    before = files_of(log.directory)
    log = open_log(log.directory, clean=clean, **SETTINGS)
    assert len(log.segments) == SEGMENTS
    assert len(log.epochs.entries) > SEGMENTS // 5
    assert len(held(log.directory)) <= 8
    assert files_of(log.directory) == before


def test_a_sealed_segment_is_read_without_an_index_that_was_damaged_since(log):
    expected = [log.read(offset, 1, Isolation.LOG_END, min_one_message=True) for offset in range(log.log_end_offset)]
    log.close()
    log = open_log(log.directory, **SETTINGS)
    for segment in log.segments[:-1]:
        path = segment.path.with_suffix(".index")
        os.truncate(path, path.stat().st_size - 3)
    answers = [log.read(offset, 1, Isolation.LOG_END, min_one_message=True) for offset in range(log.log_end_offset)]
    assert answers == expected
    log.close()
    repairs: list[str] = []
    open_log(log.directory, on_progress=repairs.append, **SETTINGS)
    assert len(repairs) == SEGMENTS - 1, repairs


@contextlib.contextmanager
def no_descriptors_left() -> Iterator[None]:
    """The process may open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_append_that_finds_no_descriptor_is_refused_with_nothing_done(log):
    """With others' descriptors for all that there may be: not that the log may be written again as if nothing was."""
    before, end = files_of(log.directory), log.log_end_offset
    for file in log._segments.active.files:
        file.close()
    failures: list[object] = []
    log.on_failure = failures.append
    with no_descriptors_left():
        for epoch in (log.epochs.latest_epoch or 0, 90):  # the second one has to be noted first
            with pytest.raises(TooManyOpenFiles):
                append(log, client_batch(b"refused"), epoch=epoch)
        with pytest.raises(TooManyOpenFiles):
            log.roll()
        with pytest.raises(TooManyOpenFiles):
            log.truncate_to(end - 1)
        with pytest.raises(TooManyOpenFiles):
            log.read(0, NO_LIMIT, Isolation.LOG_END, min_one_message=True)
    assert (failures, log.failure, log.log_end_offset) == ([], None, end)
    assert files_of(log.directory) == before
    append(log, client_batch(b"accepted"), epoch=90)
    assert log.truncate_to(end - 1)
    log.close()
    repairs: list[str] = []
    assert open_log(log.directory, on_progress=repairs.append, **SETTINGS).log_end_offset == end - 2
    assert repairs == []


def test_what_is_in_the_log_and_cannot_be_flushed_for_want_of_a_descriptor_is_not_refused_but_fails_it(tmp_path):
    """With flush.messages=1, while the log's own files are open and its directory is not."""
    log = open_log(tmp_path, flush_messages=1)
    append(log, client_batch(b"flushed"))
    log.roll()
    with no_descriptors_left(), pytest.raises(LogStorageError, match="left half changed"):
        append(log, client_batch(b"appended"))
    assert log.failure is not None


def test_a_replica_goes_although_no_descriptor_is_left(tmp_path):
    """Its name is gone durably; the checkpoints forget it the next time."""
    manager = open_directory(tmp_path / "logs")
    tp = TopicPartition("t", 0)
    created(manager, tp, b"1" * 16, config())
    with no_descriptors_left():
        deleted(manager, tp, 0)
    assert tp not in manager.logs
    assert not (tmp_path / "logs" / "t-0").exists()
    assert created(manager, tp, b"2" * 16, config()).log_end_offset == 0
    manager.close(1)


MANY_LOGS = """
import resource, sys
from pathlib import Path
from replog.server.process import raise_limit
from replog.config.topic import TopicConfig
from replog.log.directories.log_directory import LogDirectory
from replog.log.offsets import Isolation
from replog.topic import TopicPartition
from tests.replog.log.batches import NO_LIMIT, append, client_batch

resource.setrlimit(resource.RLIMIT_NOFILE, (32, 64))
assert raise_limit() == 64
from tests.replog.log.batches import config as configured
from tests.replog.log.directories.moving import created
config = configured(segment_bytes=1000, index_interval_bytes=0)
tps = [TopicPartition("t", number) for number in range(300)]

def opened(clean):
    manager = LogDirectory(Path(sys.argv[1]), cluster_id="c", node_id=1, randbytes=lambda size: bytes(size))
    assert manager.clean is clean
    manager.load(lambda _: config)
    return manager

manager = opened(False)
for tp in tps:
    created(manager, tp, bytes([1] * 16), config)
for round in range(3):
    for tp in tps:
        for size in (300, 300, 300):
            append(manager.get(tp), client_batch(bytes([round]) * size))
for tp in tps:
    log = manager.get(tp)
    assert log.log_end_offset == 9
    assert len(log.segments) >= 3
    assert log.read(0, NO_LIMIT, Isolation.LOG_END, min_one_message=True).records
    task = log.flush_task(log.segments[-1].base_offset)
    task.run()
    log.flushed(task)
manager.close(1)
manager = opened(True)
assert len(manager.logs) == 300
assert not manager.failed
for tp in tps:
    append(manager.get(tp), client_batch(b"again"))
    assert manager.get(tp).truncate_to(9)
manager.abandon()
manager = opened(False)
assert not manager.failed
assert [manager.get(tp).log_end_offset for tp in tps] == [9] * 300
manager.close(1)"""


def test_several_hundred_logs_live_within_64_descriptors(tmp_path):
    """Created, written over several segments, read, flushed, closed, opened, truncated, recovered."""
    done = subprocess.run([sys.executable, "-c", MANY_LOGS, str(tmp_path / "logs")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
