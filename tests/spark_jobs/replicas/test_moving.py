"""What is gone while it is read is told as VANISHED; what epochs may say of a log that moves. Real directories."""

import os

import pytest

from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log.formats.checkpoint import RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint, write_entries
from replog.topic import TopicPartition
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.segment_check import Batch, check_segment, until_unread
from tests.replog.log.batches import append, open_log
from tests.spark_jobs.log_directories import batch, path_of, segments

TP = TopicPartition("t", 0)


def looked(segment: ReplicaSegment) -> list[Batch | FileFault]:
    return list(until_unread(segment, check_segment(segment, 0, crc=True)))


def classes(items: list[Batch | FileFault]) -> list[str]:
    return [item.fault for item in items if isinstance(item, FileFault)]


def test_a_segment_that_retention_removed_vanished(cluster):
    first = segments(cluster)[0]
    for path in cluster.path(1, "t").glob(f"{first.base:020d}.*"):
        path.unlink()
    (fault,) = looked(first)
    assert isinstance(fault, FileFault)
    assert (fault.fault, fault.file, fault.first, fault.last) == ("VANISHED", ".log", 0, segments(cluster)[0].base - 1)


@pytest.mark.parametrize("change", [-1, -61, -900, 70])
def test_a_sealed_log_that_is_shorter_or_longer_than_it_was_vanished(cluster, change):
    first = segments(cluster)[0]
    os.truncate(path_of(first, ".log"), first.size + change)
    assert classes(looked(first)) == ["VANISHED"]


def test_an_active_log_may_grow_but_not_shrink(cluster):
    last = segments(cluster)[-1]
    log = open_log(cluster.path(1, "t"), segment_bytes=1 << 20, index_interval_bytes=150)
    append(log, batch(77), epoch=9)
    log.close()
    assert classes(looked(last)) == []
    os.truncate(path_of(last, ".log"), last.size - 1)
    assert classes(looked(last)) == ["VANISHED"]


def test_where_no_orderly_stop_noted_the_log_start_it_may_be_where_the_epochs_begin(cluster):
    """EP-5: a broker cuts the epochs off at once when records are deleted, and notes the log start within a minute."""
    cluster.build(1, "t", epochs=lambda number: 1 + number // 4)
    (cluster.path(1, "t") / "leader-epoch-checkpoint").write_text("0\n1\n2 10\n")
    first = next(segment for segment in segments(cluster) if (segment.next_base or 0) > 10)
    marker = cluster.directories[1] / CLEAN_SHUTDOWN
    assert "EPOCH_CACHE_LIE" in classes(looked(first))
    marker.unlink()
    told = [item.first for item in looked(first) if isinstance(item, FileFault)]
    assert all(offset >= 10 for offset in told), told
    lie = cluster.path(1, "t") / "leader-epoch-checkpoint"
    lie.write_text("0\n2\n2 10\n3 12\n")
    assert "EPOCH_CACHE_LIE" in classes(looked(first)), "behind the first one they are judged"


def test_a_first_epoch_that_is_missing_is_no_log_start(cluster):
    """EP-5: a log start that was raised keeps the epoch that it is in, and no batch of an older one ends before it."""
    cluster.build(1, "t", epochs=lambda number: 1 + number // 4)
    (cluster.directories[1] / CLEAN_SHUTDOWN).unlink()
    checkpoint = cluster.path(1, "t") / "leader-epoch-checkpoint"
    first, (epoch, start), *others = DirectoryStore(1, cluster.directories[1]).epochs(TP).entries
    for said, expected in (
        ([first, (epoch, start), *others], []),
        ([(epoch, start), *others], [(start - 1, first[0])]),
        ([(epoch, start + 1), *others], []),
        (others, [(others[0][1] - 1, epoch)]),
    ):
        write_entries(checkpoint, said)
        faults = [item for segment in segments(cluster) for item in looked(segment) if isinstance(item, FileFault)]
        assert [(fault.last, fault.epoch) for fault in faults] == expected, said


def test_batches_of_a_broker_that_runs_or_was_killed_may_have_epochs_that_are_not_in_its_checkpoint_yet(cluster):
    """EP-9, divergence 31: from the recovery point on, and only later ones than it says."""
    cluster.build(1, "t", epochs=lambda number: 1 + number // 4)
    checkpoint, last = cluster.path(1, "t") / "leader-epoch-checkpoint", segments(cluster)[-1]
    entries = DirectoryStore(1, cluster.directories[1]).epochs(TP).entries
    epoch, start = entries[-1]
    write_entries(checkpoint, entries[:-1])
    assert "EPOCH_CACHE_LIE" in classes(looked(last)), "after an orderly stop"
    (cluster.directories[1] / CLEAN_SHUTDOWN).unlink()
    recovery_points = OffsetCheckpoint(cluster.directories[1] / RECOVERY_POINT_CHECKPOINT)
    for flushed, said, expected in (
        (start, entries[:-1], False),
        (start + 1, entries[:-1], True),
        (start, [*entries[:-1], (epoch + 1, start)], True),
    ):
        recovery_points.write({TP: flushed})
        os.utime(recovery_points.path, ns=(0, 0))  # all of them within one tick of the clock
        write_entries(checkpoint, said)
        assert ("EPOCH_CACHE_LIE" in classes(looked(last))) == expected, (flushed, said)


def test_what_cannot_be_read_is_unreadable(cluster):
    segment = segments(cluster)[1]
    index = cluster.path(1, "t") / f"{segment.base:020d}.index"
    index.unlink()
    index.mkdir()
    assert classes(looked(segment)) == ["UNREADABLE"]
