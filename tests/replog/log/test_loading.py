"""Opening logs: fixture T closed cleanly, damaged, opened again (S-W-D1 to S-W-D21)."""

from pathlib import Path

import pytest

from replog.log.log import Log
from tests.damage.vocabulary import flip, segment_file
from tests.replog.log.batches import files_of, fixture_t, layout, open_log
from tests.replog.log.directories.test_changes import fsyncs

FULL = [(0, 234), (6, 234), (12, 234), (18, 78)]
ALL = ((0, 0), (1, 8), (2, 16))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """Fixture T, closed; its files as they were."""
    fixture_t(tmp_path, index_interval_bytes=100).close()
    return files_of(tmp_path)


def reopen(directory: Path, *, clean: bool, recovery_point: int = 0, **overrides: object) -> Log:
    return open_log(
        directory, clean=clean, recovery_point=recovery_point, segment_bytes=300, index_interval_bytes=100, **overrides
    )


@pytest.mark.parametrize(
    ("clean", "checkpoint", "recovery_point"),
    [(True, 20, 20), (False, 0, 0), (False, 12, 12), (False, 999, 20)],
    ids=["S-W-D1", "S-W-D2 0", "S-W-D2 12", "S-W-D15"],
)
def test_an_undamaged_log(tmp_path, files, clean, checkpoint, recovery_point):
    """S-W-D1, S-W-D2, S-W-D15, LD-9."""
    log = reopen(tmp_path, clean=clean, recovery_point=checkpoint)
    assert (layout(log), log.log_end_offset, log.epochs.entries) == (FULL, 20, ALL)
    assert (log.recovery_point, log.lost_data) == (recovery_point, checkpoint > 20)
    assert files_of(tmp_path) == files


def test_a_recovery_that_cuts_nothing_waits_for_the_disk_only_where_a_segment_was_sealed(tmp_path, files):
    """After a SIGKILL thousands of logs are recovered: six fsyncs for each were most of the time. What is not durable
    is still behind the recovery point, and a cut is not among it (LG-10)."""
    with fsyncs() as synced:
        reopen(tmp_path, clean=False, recovery_point=18).abandon()
    assert not synced
    with fsyncs() as synced:
        reopen(tmp_path, clean=False, recovery_point=12).abandon()
    assert {Path(path).name.partition(".")[0] for path in synced} == {segment_file(12, "").rstrip(".")}
    flip(tmp_path / segment_file(18, "log"), 70)
    with fsyncs() as synced:
        reopen(tmp_path, clean=False, recovery_point=18).abandon()
    assert str(tmp_path / segment_file(18, "log")) in synced


def test_a_torn_epoch_file_of_an_empty_log_is_gone_once_it_was_loaded(tmp_path):
    """LD-10: a leader's first epoch, and a crash while it was written; what is said of the empty log is nothing."""
    reopen(tmp_path, clean=True).close()
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 ")
    assert reopen(tmp_path, clean=False).epochs.entries == ()
    assert not (tmp_path / "leader-epoch-checkpoint").exists()


def test_a_recovery_leaves_indexes_alone_that_are_as_they_should_be(tmp_path, files):
    """Rebuilding the three indexes of thousands of logs was most of what it cost."""
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob(f"{segment_file(18, '')}*")}
    reopen(tmp_path, clean=False, recovery_point=18).abandon()
    assert len(before) == 5  # `.log`, three indexes, `.snapshot`
    assert {path: path.stat().st_mtime_ns for path in before} == before
    index = tmp_path / segment_file(18, "digest")
    index.write_bytes(index.read_bytes() + bytes(16))
    reopen(tmp_path, clean=False, recovery_point=18).abandon()
    assert files_of(tmp_path) == files


@pytest.mark.parametrize(("clean", "recovery_point"), [(False, 12), (True, 0)])
def test_payload_below_the_recovery_point_is_not_read(tmp_path, files, clean, recovery_point):
    """S-W-D5, LD-5, LD-7."""
    flip(tmp_path / segment_file(6, "log"), 78 + 70)
    assert reopen(tmp_path, clean=clean, recovery_point=recovery_point).log_end_offset == 20


def test_a_checkpointed_log_start(tmp_path, files):
    """S-W-D14, LD-10, LD-11: HW 0 is raised to it."""
    log = reopen(tmp_path, clean=True, log_start_offset=7)
    assert (log.log_start_offset, log.high_watermark, log.epochs.entries) == (7, 7, ((0, 7), (1, 8), (2, 16)))


@pytest.mark.parametrize("log_start", [0, 42])
def test_an_empty_directory(tmp_path, log_start):
    """S-W-D18, LD-8."""
    log = open_log(tmp_path / "new", log_start_offset=log_start)
    assert (layout(log), log.log_start_offset, log.log_end_offset) == ([(log_start, 0)], log_start, log_start)


def test_an_index_of_another_interval_is_rebuilt(tmp_path, files):
    """The indexes are a function of the bytes and of `index.interval.bytes` as it is now."""
    reopen(tmp_path, clean=True).close()
    log = open_log(tmp_path, segment_bytes=300, index_interval_bytes=10)
    fresh = fixture_t(tmp_path / "fresh", index_interval_bytes=10)
    assert files_of(tmp_path) == files_of(tmp_path / "fresh")
    assert log.log_end_offset == fresh.log_end_offset
