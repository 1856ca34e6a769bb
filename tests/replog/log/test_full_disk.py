"""LG-19: a log on a full disk refuses what needs room, reads on, and goes on when there is room, as if nothing was."""

import errno
import os
import random

import pytest

from replog.log.errors import LogStorageError, NoRoom
from replog.log.log import Log
from replog.log.offsets import Isolation
from tests.replog.log.batches import append, client_batch, files_of, leader_batch, open_log
from tests.replog.log.full_disk import Refusals, small_disk

BATCH = client_batch(b"x" * 1000)
SMALL = {"segment_bytes": 900, "index_interval_bytes": 1}


def content(log: Log) -> bytes:
    return b"".join(segment.path.read_bytes() for segment in log.segments)


def test_a_full_disk_refuses_appends_serves_reads_and_takes_appends_once_there_is_room(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        log = open_log(disk.path / "t-0")
        log.on_flush_due = lambda: None
        disk.leave(pages=3)
        with pytest.raises(NoRoom, match=r"t-0: No space left on device; 0 bytes are free there; make room"):
            append(log, *[BATCH] * 100)
        end = log.log_end_offset
        assert 0 < end < 100
        assert log.failure is None
        assert content(log) == b"".join(leader_batch(offset, 0, b"x" * 1000) for offset in range(end)), "no torn tail"
        for _ in range(3):
            with pytest.raises(NoRoom):
                append(log, client_batch(b"x" * 5000))
            with pytest.raises(NoRoom):
                log.append_as_follower(leader_batch(end, 0, b"x" * 5000))
        assert len(log.read(0, 1 << 20, Isolation.LOG_END, min_one_message=True).records) == log.size
        assert log.truncate_to(end - 1)
        disk.make_room()
        log.flush()
        append(log, *[BATCH] * 10)
        log.close()
        reports: list[str] = []
        again = open_log(disk.path / "t-0", on_progress=reports.append)
        assert (again.log_end_offset, reports) == (end + 9, [])
        again.close()


def same_files(log: Log, other: Log) -> None:
    assert files_of(log.directory) == files_of(other.directory)
    assert log.producers.snapshot_entries() == other.producers.snapshot_entries()


@pytest.mark.parametrize("seed", range(8))
def test_logs_that_were_refused_room_now_and_then_end_as_one_that_never_was(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    refusals = Refusals(monkeypatch, rng)
    sound, leader, follower = logs = [open_log(tmp_path / name, **SMALL) for name in ("sound", "leader", "follower")]
    for log in logs:
        log.on_flush_due = lambda: None
    sequences = dict.fromkeys(range(3), 0)
    for number in range(60):
        count, producer = rng.randrange(1, 4), rng.randrange(3)
        batch = client_batch(
            *[b"x" * rng.randrange(100)] * count,
            timestamps=[number] * count,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequences[producer],
        )
        sequences[producer] += count
        append(sound, batch)
        follow_with_refusals(refusals, leader, lambda log, batch=batch: append(log, batch), sound)
        if rng.random() < 0.3:
            follow_with_refusals(refusals, follower, lambda log: fetch(sound, log), sound)
        if rng.random() < 0.1:
            follow_with_refusals(refusals, follower, lambda log: fetch(sound, log), sound)
            cut = rng.randrange(sound.log_start_offset, sound.log_end_offset + 1)
            refusals.on = True
            for log in (leader, follower):
                log.truncate_to(cut)
            refusals.on = False
            sound.truncate_to(cut)
            for log in logs:
                log.flush()
            sequences = {p: next_sequence(sound, p) for p in sequences}
    follow_with_refusals(refusals, follower, lambda log: fetch(sound, log), sound)
    assert refusals.count
    for log in logs:
        log.close()
    for log in (leader, follower):
        same_files(log, sound)
        reports: list[str] = []
        reopened = open_log(log.directory, on_progress=reports.append, **SMALL)
        assert (reopened.log_end_offset, reports) == (sound.log_end_offset, [])
        reopened.close()


def next_sequence(log: Log, producer: int) -> int:
    known = [entry.last_sequence for entry in log.producers.snapshot_entries() if entry.producer_id == producer]
    return known[0] + 1 if known else 0


def fetch(source: Log, log: Log) -> None:
    while log.log_end_offset < source.log_end_offset:
        data = source.read(log.log_end_offset, 3000, Isolation.LOG_END, min_one_message=True)
        log.append_as_follower(bytes(data.records))


def follow_with_refusals(refusals: Refusals, log: Log, work: object, sound: Log) -> None:
    """Try until it is done; each refusal has left whole batches only."""
    assert callable(work)
    refusals.on = True
    while True:
        try:
            work(log)
        except NoRoom:
            assert log.failure is None
            assert content(log) == content(sound)[: log.size]
        else:
            refusals.on = False
            return


def test_a_disk_that_finds_at_an_fsync_that_it_is_full_has_lost_records(tmp_path, monkeypatch):
    """What NFS and quotas may do: it was acknowledged to the writer, and is gone."""
    log = append(open_log(tmp_path), BATCH)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LogStorageError, match="No space left"):
        log.flush()
    assert log.failure is not None


def test_a_stop_without_room_for_what_it_has_to_write_says_so(tmp_path, monkeypatch):
    log = append(open_log(tmp_path), BATCH)
    Refusals(monkeypatch, random.Random(1), rate=1).on = True
    with pytest.raises(NoRoom):
        log.close()
    assert not list(tmp_path.glob("*.snapshot"))


@pytest.mark.parametrize("interval", [0, 4096])
def test_a_follower_takes_a_fetch_of_many_batches_once_there_is_room(tmp_path, monkeypatch, interval):
    """There are more than a segment remembers, and they are not in the file when they are taken back."""
    sound, follower = [open_log(tmp_path / name, index_interval_bytes=interval) for name in ("sound", "follower")]
    for _ in range(50):
        append(sound, BATCH)
    follower.append_as_follower(bytes(sound.read(0, 1, Isolation.LOG_END, min_one_message=True).records))
    rest = bytes(sound.read(follower.log_end_offset, 1 << 20, Isolation.LOG_END, min_one_message=True).records)
    refusals = Refusals(monkeypatch, random.Random(1), rate=1.0)
    refusals.on = True
    for _ in range(3):
        with pytest.raises(NoRoom):
            follower.append_as_follower(rest)
        assert follower.failure is None
    refusals.on = False
    follower.append_as_follower(rest)
    for log in (sound, follower):
        log.close()
    same_files(follower, sound)
