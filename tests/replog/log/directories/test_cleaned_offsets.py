"""`cleaner-offset-checkpoint` (1.3): kept by a log directory for its replicas."""

import shutil
from pathlib import Path

import pytest

from replog.log.directories.log_directory import LogDirectory
from replog.topic import TopicPartition
from tests.damage.vocabulary import flip
from tests.replog.log.batches import append, client_batch, config, layout
from tests.replog.log.compaction.compacting import clean, keyed, offsets_of, sealed
from tests.replog.log.directories.moving import created, deleted, open_directory

TP = TopicPartition("t", 0)
OTHER = TopicPartition("other", 3)
COMPACTED = config(cleanup_policy="compact")


def filled(directory: Path) -> LogDirectory:
    """Ten records in two segments, clean up to 5; another replica clean up to 7."""
    manager = open_directory(directory, COMPACTED)
    log = created(manager, TP, b"1" * 16, COMPACTED)
    append(log, *[client_batch((b"k", b"v"))] * 5).roll()
    append(log, *[client_batch((b"k", b"v"))] * 5)
    created(manager, OTHER, b"2" * 16, COMPACTED).truncate_fully_and_start_at(7)
    manager.cleaned_offsets.raise_to(TP, 5)
    manager.cleaned_offsets.raise_to(OTHER, 7)
    manager.cleaned_offsets.write()
    return manager


def content(directory: Path) -> str:
    return (directory / "cleaner-offset-checkpoint").read_text()


def test_a_truncation_below_lowers_it_at_once(tmp_path):
    """What is appended there next is dirty, after a crash too; above, it stays."""
    manager = filled(tmp_path)
    manager.logs[TP].truncate_to(8)
    assert content(tmp_path) == "0\n2\nother 3 7\nt 0 5\n"
    manager.logs[TP].truncate_to(3)
    assert content(tmp_path) == "0\n2\nother 3 7\nt 0 0\n"
    manager.abandon()


def test_it_goes_with_the_replica(tmp_path):
    manager = filled(tmp_path)
    deleted(manager, TP, 0)
    assert content(tmp_path) == "0\n1\nother 3 7\n"
    manager.close(1)
    shutil.rmtree(tmp_path / "other-3")
    manager = open_directory(tmp_path, COMPACTED)
    assert manager.cleaned_offsets.get(OTHER) is None, "another replica may come by that name"
    manager.abandon()


def test_a_damaged_one_counts_as_empty(tmp_path):
    filled(tmp_path).close(1)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n7\n")
    lines: list[str] = []
    manager = open_directory(tmp_path, COMPACTED, lines.append)
    assert manager.cleaned_offsets.get(TP) is None
    assert any("cleaner-offset-checkpoint" in line and "from their beginning" in line for line in lines), lines
    manager.abandon()


def test_a_start_that_cuts_the_log_lowers_it(tmp_path):
    """What is copied there again need not have been cleaned where it comes from; and that holds after a crash."""
    manager = filled(tmp_path)
    path = manager.logs[TP].segments[0].path
    manager.abandon()
    flip(path, 150)
    manager = open_directory(tmp_path, COMPACTED)
    log = manager.logs[TP]
    assert (log.log_end_offset, manager.cleaned_offsets.get(TP)) == (2, 0)
    append(log, *[client_batch((b"k", b"v"))] * 10).flush()
    manager.abandon()
    manager = open_directory(tmp_path, COMPACTED)
    assert manager.cleaned_offsets.get(TP) == 0
    manager.abandon()


@pytest.mark.parametrize("is_clean", [True, False])
def test_cl_8_where_the_cleaner_was_a_start_cuts_off_no_record_whatever_the_setting_says(tmp_path, is_clean):
    """Metadata that were rebuilt from disks did not know that the topic is compacted: four of 32 records were left."""
    compacted = config(cleanup_policy="compact", segment_bytes=300, index_interval_bytes=100)
    manager = open_directory(tmp_path, compacted)
    log = created(manager, TP, b"1" * 16, compacted)
    for first in range(0, 40, 4):
        sealed(log, *[keyed(f"{number % 7}") for number in range(first, first + 4)])
    manager.cleaned_offsets.raise_to(TP, clean(log))
    manager.cleaned_offsets.write()
    append(log, keyed("a"), keyed("b"))
    kept, segments = offsets_of(log), layout(log)
    assert kept == [*range(33, 40), 40, 41]
    manager.checkpoints.write_recovery_points()
    manager.close(1) if is_clean else manager.abandon()
    manager = open_directory(tmp_path, config(segment_bytes=300, index_interval_bytes=100))
    again = manager.logs[TP]
    assert (offsets_of(again), layout(again), again.lost_data) == (kept, segments, False)
    manager.abandon()
