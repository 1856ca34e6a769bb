"""A disk that stops taking bytes: the log stops there, says so, and opens again with what was whole."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from replog.log.errors import LogStorageError
from replog.log.log import Log
from replog.log.offsets import Isolation
from tests.replog.log.batches import append, client_batch, leader_batch, open_log

BATCH = client_batch(b"x" * 1000)


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Writes beyond `size` bytes of any file fail, after a partial write up to there, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(log: Log) -> int:
    """Append until the disk refuses; the number of whole batches."""
    with files_limited_to(5000), pytest.raises(LogStorageError, match=f"{log.directory.name}.*too large.*ulimit -f"):
        for _ in range(10):
            append(log, BATCH)
    return log.log_end_offset


def test_a_failed_append_ends_the_logs_work(tmp_path):
    log = open_log(tmp_path)
    end = fill(log)
    assert end == 5000 // len(BATCH)
    assert log.failure is not None
    for attempt in (
        lambda: append(log, BATCH),
        lambda: log.append_as_follower(leader_batch(end, 0, b"x")),
        lambda: log.read(0, 100, Isolation.LOG_END, min_one_message=True),
        lambda: log.truncate_to(1),
        log.roll,
        log.flush,
        lambda: log.bound(Isolation.HIGH_WATERMARK),
    ):
        with pytest.raises(LogStorageError, match="File too large"):
            attempt()
    log.close()  # lets go of the files, writes nothing


def test_what_was_whole_is_there_after_the_next_start(tmp_path):
    log = open_log(tmp_path)
    end = fill(log)
    log.abandon()
    assert log.segments[-1].path.stat().st_size == 5000, "a torn batch"
    again = open_log(tmp_path, clean=False)
    assert (again.log_end_offset, again.size) == (end, end * len(BATCH))
    assert append(again, BATCH).log_end_offset == end + 1


def test_a_leader_epoch_without_data_is_forgotten_by_a_restart(tmp_path):
    """LD-10: an entry at the log end is cut; the next election writes its own."""
    log = append(open_log(tmp_path), BATCH, epoch=3)
    log.assign_epoch_start(8)
    log.close()
    assert open_log(tmp_path).epochs.entries == ((3, 0),)


def test_a_segment_that_the_disk_has_lost_is_told_and_not_made_again_empty(tmp_path):
    log = open_log(tmp_path, segment_bytes=1024)
    for _ in range(40):
        append(log, client_batch(b"x" * 40))
    log.close()
    log = open_log(tmp_path, segment_bytes=1024)
    lost = log.segments[0].path
    lost.unlink()
    with pytest.raises(LogStorageError, match=lost.name):
        log.read(0, 100, Isolation.LOG_END, min_one_message=True)
    assert not lost.exists()
    assert log.failure is not None
