"""What is said of a whole replica, and what it costs."""

from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log.formats.batch import iterate_batches
from replog.log.formats.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
    write_entries,
)
from replog.log.indexes.index import OffsetIndex
from replog.topic import TopicPartition
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReadCount
from tests.replog.log.batches import append, client_batch, open_log


def test_the_log_end_is_found_near_the_end_where_entries_are_for_appends_of_several_batches(tmp_path):
    """SG-2: the offset of the last batch with the position of the first, as in many of a follower of Kafka's."""
    log = open_log(tmp_path / "t-0", segment_bytes=1 << 20)
    for number in range(1000):
        append(log, client_batch(bytes(number % 100)), epoch=1)
    log.close()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    batches = list(iterate_batches(path.read_bytes()))
    entries = [(batches[n + 2][1].last_offset, batches[n][0]) for n in range(10, 990, 10)]
    path.with_suffix(".index").write_bytes(b"".join(OffsetIndex.layout.pack(*entry) for entry in entries))
    (files,) = DirectoryStore(1, tmp_path).partitions(frozenset())
    count = ReadCount()
    described = describe(files.counted(count))
    assert (described.log_end, described.fault) == (1000, None), described
    assert count.bytes < 5 * 4096 < path.stat().st_size, count.bytes


def test_epochs_beyond_the_log_end_are_what_is_left_of_a_lost_tail(tmp_path):
    """The tail is told by itself; a checkpoint of a log that has all that was committed lies (EP-1)."""
    log = append(open_log(tmp_path / "t-0"), *[client_batch(b"a")] * 5, epoch=1)
    log.close()
    (tmp_path / CLEAN_SHUTDOWN).touch()
    write_entries(tmp_path / "t-0" / LEADER_EPOCH_CHECKPOINT, [(1, 0), (2, 7)])
    for mark, fault in ((8, None), (5, "EPOCH_CACHE_LIE")):
        OffsetCheckpoint(tmp_path / HIGH_WATERMARK_CHECKPOINT).write({TopicPartition("t", 0): mark})
        (files,) = DirectoryStore(1, tmp_path).partitions(frozenset())
        assert (describe(files).log_end, describe(files).fault) == (5, fault)


def test_epochs_of_a_broker_that_runs_or_was_killed_may_lag(tmp_path):
    """EP-9, divergence 31: its next start adds what the batches say, and cuts off what is beyond them. What was flushed
    the file says."""
    log = append(open_log(tmp_path / "t-0"), *[client_batch(b"a")] * 5, epoch=1)
    log.close()
    checkpoint = tmp_path / "t-0" / LEADER_EPOCH_CHECKPOINT
    for entries, flushed, fault in (([], 0, None), ([], 1, "EPOCH_CACHE_LIE"), ([(1, 0), (2, 7)], 5, None)):
        write_entries(checkpoint, entries)
        OffsetCheckpoint(tmp_path / RECOVERY_POINT_CHECKPOINT).write({TopicPartition("t", 0): flushed})
        (files,) = DirectoryStore(1, tmp_path).partitions(frozenset())
        assert describe(files).fault == fault, (entries, flushed)
    for path in (tmp_path / "t-0").glob("*.digest"):
        path.unlink()
    write_entries(checkpoint, [])
    OffsetCheckpoint(tmp_path / RECOVERY_POINT_CHECKPOINT).write({TopicPartition("t", 0): 0})
    assert describe(files).fault == "EPOCH_CACHE_LIE", "Kafka's do not lag"
