"""Which replicas a log directory has, whatever lies in it."""

import os
from pathlib import Path

import pytest

from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT
from replog.topic import TopicPartition
from spark_jobs.replicas import directories
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import NO_PARTITION, PartitionFiles
from tests.spark_jobs.log_directories import END, path_of, segments

TP = TopicPartition("t", 0)


def listed(root: Path) -> dict[TopicPartition, PartitionFiles]:
    return {files.partition: files for files in DirectoryStore(1, root).partitions(frozenset())}


def test_what_is_no_replica_is_passed_over(cluster):
    """Names that are not UTF-8, files, links that lead nowhere or to themselves."""
    root = cluster.directories[1]
    os.mkdir(os.fsencode(root) + b"/\xff\xfe-0")
    os.mkdir(os.fsencode(root) + b"/t-\xff")
    (root / "file-0").write_bytes(b"")
    os.symlink("/nowhere", root / "dangling-0")
    os.symlink("itself", root / "itself")
    (cluster.path(1, "t") / os.fsdecode(b"\xff.log")).write_bytes(b"")
    files = listed(root)
    assert files.keys() == {TP}
    assert files[TP].error is None


def test_a_replica_that_is_a_link_to_itself_is_told_and_no_other(cluster):
    os.symlink("u-0", cluster.directories[1] / "u-0")
    files = listed(cluster.directories[1])
    assert "Too many levels of symbolic links" in (files[TopicPartition("u", 0)].error or ""), files
    assert files[TP].error is None


@pytest.mark.parametrize("name", [b"00000000000000000020.\xff.log", b"00000000000000000000.copy.log"])
def test_a_log_of_another_name_than_segments_have_is_told(cluster, name):
    (cluster.path(1, "t") / os.fsdecode(name)).write_bytes(b"")
    error = listed(cluster.directories[1])[TP].error or ""
    assert "is no name of a segment's log" in error
    error.encode()  # it can be shown


@pytest.mark.parametrize(
    ("line", "told"), [("t 99999999999 5", "'t-99999999999'"), ("../../x 0 5", "'../../x-0'"), ("t 0 x", "'x' is not")]
)
def test_a_mark_of_what_can_be_no_partition_makes_the_marks_unreadable(cluster, line, told):
    (cluster.directories[1] / HIGH_WATERMARK_CHECKPOINT).write_text(f"0\n1\n{line}\n")
    (files,) = listed(cluster.directories[1]).values()
    assert (files.partition, files.place) == (NO_PARTITION, str(cluster.directories[1]))
    assert HIGH_WATERMARK_CHECKPOINT in (files.error or "")
    assert told in (files.error or "")


@pytest.mark.parametrize("suffix", ["-delete", "-future", "-stray"])
def test_a_replica_that_its_broker_has_set_aside_is_not_lost(cluster, suffix):
    """Kafka updates its marks only seconds later."""
    directory = cluster.path(1, "t")
    aside = directory.rename(directory.with_name(f"t-0.{'0' * 32}{suffix}"))
    assert listed(cluster.directories[1]) == {}
    aside.rename(cluster.directories[1] / "elsewhere")
    (lost,) = listed(cluster.directories[1]).values()
    assert (lost.partition, lost.high_watermark, lost.segments) == (TP, END, ())


def test_segments_that_retention_deletes_meanwhile_are_no_error(cluster, monkeypatch):
    first, second, *_ = segments(cluster)
    named = directories.files_by_offset

    def files_by_offset(directory: Path, suffix: str) -> list[tuple[int, str]]:
        paths = named(directory, suffix)
        path_of(first, ".log").unlink(missing_ok=True)
        return paths

    monkeypatch.setattr(directories, "files_by_offset", files_by_offset)
    files = listed(cluster.directories[1])[TP]
    assert files.error is None
    assert files.segments[0].base == files.log_start == second.base
