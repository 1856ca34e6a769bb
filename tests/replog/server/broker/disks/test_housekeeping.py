"""What a broker does on its own clock."""

import errno
import os
from pathlib import Path

import pytest

from replog.config.topic import TopicConfig
from replog.log.errors import TooManyOpenFiles
from replog.log.files import opening
from replog.log.indexes.index import OffsetIndex
from replog.server.broker.disks import housekeeping
from replog.server.broker.disks.housekeeping import Housekeeping
from replog.server.broker.disks.log_flusher import LogFlusher
from replog.topic import TopicPartition
from tests.replog.log.directories.moving import ID, created, deleted, start
from tests.replog.log.files.test_open_files import no_descriptors_left
from tests.replog.server.broker.conftest import TP, batch, eventually


async def test_rolled_segments_are_durable_soon_and_flush_ms_makes_all_of_it_so(cluster):
    """LG-5, LG-18: the recovery point says where a recovery would begin."""
    await cluster.begin(1, segment_bytes="2000")
    await cluster.create_topic("all", replication_factor=1, flush_ms="500")
    for _ in range(10):
        await cluster.produce(TP, batch(b"x" * 500))
        await cluster.produce(TopicPartition("all", 0), batch(b"x" * 500))
    log, all_of_it = cluster.log(1, TP), cluster.log(1, TopicPartition("all", 0))
    await eventually(lambda: log.recovery_point == log.segments[-1].base_offset, what=lambda: log.recovery_point)
    await eventually(lambda: all_of_it.recovery_point == 10, what=lambda: all_of_it.recovery_point)


async def test_the_index_files_of_a_running_broker_have_all_entries_soon(cluster):
    """Divergence 16: an append leaves its entry for the next ones."""
    await cluster.begin(1, index_interval_bytes="0")
    for _ in range(4):
        await cluster.produce(TP, batch(b"x"))
    index = cluster.log(1, TP).segments[-1].path.with_suffix(".index")
    await eventually(lambda: index.stat().st_size == 3 * OffsetIndex.layout.size)


async def test_a_checkpoint_for_which_there_is_no_room_is_written_once_there_is(cluster, monkeypatch):
    """HW-11. A disk that has no room for another replica is no reason to stop those that are there."""
    full, refused, real = True, list[str](), opening.make_file

    def make_file(path: Path, content: bytes = b"") -> None:
        if full and path.name.startswith("replication-offset-checkpoint"):
            refused.append(path.name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real(path, content)

    broker = await cluster.begin(1, brokers={"replica_high_watermark_checkpoint_interval_ms": 50})
    monkeypatch.setattr(opening, "make_file", make_file)
    await cluster.produce(TP, batch(b"one"))
    await eventually(lambda: len(refused) > 2)
    assert not broker.failed
    full = False
    checkpoint = cluster.directory / "broker-1" / "replication-offset-checkpoint"
    await eventually(lambda: checkpoint.exists() and "t 0 1" in checkpoint.read_text())


async def test_expired_segments_go_and_their_files_follow(cluster):
    """LG-13 to LG-15."""
    soon = {"log_retention_check_interval_ms": 50}
    await cluster.begin(1, brokers=soon, segment_bytes="2000", retention_bytes="2500", file_delete_delay_ms="100")
    for _ in range(20):
        await cluster.produce(TP, batch(b"x" * 500))
    log = cluster.log(1, TP)
    await eventually(lambda: log.log_start_offset > 0 and len(log.segments) <= 3, what=lambda: log.segments)
    await eventually(lambda: not list(log.directory.glob("*.deleted")), what=lambda: list(log.directory.iterdir()))


async def test_nothing_is_kept_for_partitions_that_are_gone(cluster):
    broker = await cluster.begin(1, flush_ms="60000")
    assert broker.logs is not None
    chores = Housekeeping(broker.manager, broker.logs, LogFlusher(broker.manager, broker.logs, broker._fetchers))
    await cluster.produce(TP, batch(b"one"))
    broker.manager.dirty[TP] = None  # the broker's own chores may have taken it
    await chores._flush()
    await chores._delete_expired()
    assert list(chores._restless) == [(TP, cluster.log(1, TP))]
    await cluster.delete_topic("t")
    await eventually(lambda: TP not in broker.manager.replicas.hosted)
    await chores._flush()
    assert not chores._restless


async def test_what_could_not_be_removed_for_want_of_descriptors_is_removed_the_next_time(cluster):
    """A directory has to be opened."""
    broker = await cluster.start_broker(1)
    directories = start(cluster.directory / "another")
    for tp in (TopicPartition("gone", 0), TopicPartition("gone", 1)):
        created(directories, tp, ID, TopicConfig(file_delete_delay_ms=0))
        deleted(directories, tp, 0)
    chores = Housekeeping(broker.manager, directories, LogFlusher(broker.manager, directories, broker._fetchers))
    with no_descriptors_left(), pytest.raises(TooManyOpenFiles):
        await chores._delete_expired()
    await chores._delete_expired()
    assert list((cluster.directory / "another").glob("*-delete")) == []


async def test_raised_log_starts_are_saved_also_after_one_directorys_file_failed_ft_23(cluster, monkeypatch):
    """FT-23: a deletion of records on the other disk is answered at once, and on this one once the file is mended."""
    monkeypatch.setattr(housekeeping, "FIRST_MS", 100)
    disks = [cluster.directory / "d1", cluster.directory / "d2"]
    await cluster.begin(1, partitions=2, brokers={"log_dirs": ",".join(map(str, disks))})
    logs = {cluster.log(1, TopicPartition("t", number)) for number in (0, 1)}
    assert {log.directory.parent for log in logs} == set(disks)
    for in_the_way in (disk / "log-start-offset-checkpoint" / "file" for disk in disks):
        in_the_way.parent.unlink(missing_ok=True)
        in_the_way.parent.mkdir()
        in_the_way.touch()
        for log in logs:
            end = log.log_end_offset
            await cluster.produce(TopicPartition("t", int(log.directory.name[-1])), batch(b"one"))
            await eventually(lambda log=log, end=end: log.high_watermark == end + 1)
            log.maybe_increment_log_start_offset(end + 1)
        (stuck,) = (log for log in logs if log.directory.parent == in_the_way.parent.parent)
        (other,) = logs - {stuck}
        await eventually(lambda other=other: other.kept_start_offset == other.log_start_offset)
        assert stuck.kept_start_offset < stuck.log_start_offset
        in_the_way.unlink()
        in_the_way.parent.rmdir()
        await eventually(lambda stuck=stuck: stuck.kept_start_offset == stuck.log_start_offset)
    assert not cluster.brokers[1].failed
