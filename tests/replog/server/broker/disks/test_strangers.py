"""What strangers do to a broker's files is no failure of the disk: one replica or file is offline, named, and tried
again until it works (D57)."""

import asyncio
import errno
import os
import random
import shutil
from pathlib import Path

import pytest
import structlog

from replog.common.backoff import Backoff
from replog.errors import ErrorCode
from replog.log.directories.partition_metadata import PARTITION_METADATA
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT
from replog.server.broker.disks.reopening import Reopening
from replog.server.controller import active_controller
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually
from tests.replog.server.broker.test_metrics import shown

T, U = TopicPartition("t", 0), TopicPartition("u", 0)


async def at_once(cluster: InProcessCluster, broker_id: int) -> None:
    """As if the time of the next try had come."""
    broker = cluster.brokers[broker_id]
    assert broker._roles is not None
    for tp in [tp for tp, _ in broker.manager.replicas.lost()]:
        reopening = Reopening(
            broker._image, broker.replicas, broker.logs, broker._roles, broker._placed, Backoff(random.Random(1))
        )
        await reopening.reopen(tp)


def disk(cluster: InProcessCluster, broker_id: int) -> Path:
    return cluster.directory / f"broker-{broker_id}"


async def test_a_deleted_replica_with_a_strangers_file_is_tried_again_and_a_link_goes_without_what_it_points_to(
    cluster, monkeypatch
):
    broker = await cluster.begin(1, file_delete_delay_ms="0")
    await cluster.create_topic("u", replication_factor=1, file_delete_delay_ms="0")
    await cluster.produce(U, batch(b"kept"))
    await cluster.stop_broker(1)
    shutil.move(disk(cluster, 1) / "u-0", cluster.directory / "elsewhere")
    (disk(cluster, 1) / "u-0").symlink_to(cluster.directory / "elsewhere")
    broker = await cluster.start_broker(1)
    assert cluster.log(1, U).log_end_offset == 1
    real = os.rmdir

    def rmdir(path: str, *rest: object, **options: object) -> None:
        if str(path).endswith("-delete"):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        real(path, *rest, **options)

    monkeypatch.setattr(os, "rmdir", rmdir)
    with structlog.testing.capture_logs() as told:
        await cluster.delete_topic("t")
        await cluster.delete_topic("u")
        await eventually(lambda: broker.manager.context.traffic.undeleted == 1)
        await eventually(lambda: not list(disk(cluster, 1).glob("u-0*")))
        await eventually(lambda: [each["target"] for each in told if "link" in each["event"]] != [])
    assert [each["target"] for each in told if "link" in each["event"]] == [str(cluster.directory / "elsewhere")]
    assert list((cluster.directory / "elsewhere").glob("*.log")), "only the link is ours to remove"
    assert not broker.failed
    await cluster.stop_broker(1)
    monkeypatch.undo()
    await cluster.start_broker(1)
    assert not list(disk(cluster, 1).glob("*-delete")), "it was found again"


async def test_a_plain_file_in_the_place_of_a_coming_replica_keeps_that_one_until_it_goes_and_is_told_once(cluster):
    broker = await cluster.start_broker(1)
    (disk(cluster, 1) / "u-0").write_text("a note")
    roles, tries = broker._roles, []
    refuse = roles._refuse
    roles._refuse = lambda tp, error: (tries.append(tp), refuse(tp, error))
    with structlog.testing.capture_logs() as told:
        await cluster.ask_for_topic("u", 1, 1)
        await eventually(lambda: len(tries) >= 4)
    assert set(tries) == {U}
    assert [line["partition"] for line in told if line["event"].startswith("replica refused")] == [str(U)]
    await cluster.create_topic("t", replication_factor=1)
    assert (await cluster.produce(T, batch(b"x")))[0] is ErrorCode.NONE
    (disk(cluster, 1) / "u-0").unlink()
    await cluster.hosted(U)
    assert (await cluster.produce(U, batch(b"x")))[0] is ErrorCode.NONE


async def test_ct_27_a_replica_that_cannot_be_made_leads_no_more_if_another_is_in_sync_and_comes_back(cluster):
    await cluster.start_brokers(1, 2)
    both = [TopicPartition("u", partition) for partition in (0, 1)]
    for tp in both:
        (disk(cluster, 1) / tp.directory_name).write_text("a note")
    await cluster.ask_for_topic("u", 2, 2, min_insync_replicas="1")
    assert {cluster.controller.state.image.partitions[tp].replicas[0] for tp in both} == {1, 2}
    for tp in both:
        await eventually(lambda tp=tp: (cluster.leader(tp), cluster.isr(tp)) == (2, {2}))
        await eventually(lambda tp=tp: cluster.brokers[1].replicas.leader(tp) is ErrorCode.KAFKA_STORAGE_ERROR)
        await cluster.led(tp)
        assert (await cluster.produce(tp, batch(b"x")))[0] is ErrorCode.NONE
        (disk(cluster, 1) / tp.directory_name).unlink()
        await eventually(lambda tp=tp: cluster.isr(tp) == {1, 2})
        assert cluster.log(1, tp).log_end_offset == 1
    assert not cluster.brokers[1].replicas.unreachable


async def test_a_replica_whose_file_is_denied_goes_offline_alone_and_comes_back(cluster):
    """The leader's: another one leads, and has it in sync again once the file is mended."""
    await cluster.begin(2, min_insync_replicas="1")
    await cluster.create_topic("u", replication_factor=2, min_insync_replicas="1")
    await cluster.produce(T, batch(b"x"))
    first = cluster.leader(T)
    log = cluster.log(first, T)
    trap = log.directory / f"{LEADER_EPOCH_CHECKPOINT}.tmp"
    trap.mkdir()
    with pytest.raises(Exception, match="a directory has the name of a file"):
        log.assign_epoch_start(7)
    trap.rmdir()
    await at_once(cluster, first)
    assert list(cluster.brokers[first].manager.replicas.lost()), "as long as the controller takes it for a whole one"
    trap.mkdir()
    await eventually(lambda: cluster.leader(T) == 3 - first)
    assert cluster.isr(T) == {3 - first}
    assert not cluster.brokers[first].failed
    await cluster.led(T)
    assert (await cluster.produce(T, batch(b"y"), acks=1))[0] is ErrorCode.NONE
    assert (await cluster.produce(U, batch(b"x")))[0] is ErrorCode.NONE
    assert cluster.isr(U) == {1, 2}
    trap.rmdir()
    await at_once(cluster, first)
    await eventually(lambda: cluster.isr(T) == {1, 2})
    assert cluster.log(first, T).log_end_offset == 2
    assert not list(cluster.brokers[first].manager.replicas.lost())


@pytest.mark.parametrize("content", [None, b"", bytes(43)], ids=["missing", "empty", "zeros"])
async def test_a_lost_topic_id_is_written_anew_where_the_metadata_leave_no_doubt(cluster, content):
    await cluster.begin(1)
    await cluster.produce(T, batch(b"x"))
    await cluster.stop_broker(1)
    path = disk(cluster, 1) / "t-0" / PARTITION_METADATA
    before = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    await cluster.start_broker(1)
    assert path.read_bytes() == before
    await cluster.led(T)
    assert (await cluster.fetch(T, 0))[1]


async def test_a_topic_that_was_made_again_meanwhile_does_not_take_the_old_ones_records(cluster):
    """Its epochs may be as high: only the version tells."""
    await cluster.begin(2, min_insync_replicas="1")
    await cluster.produce(T, batch(b"of the old one"))
    await cluster.stop_broker(2)
    await cluster.delete_topic("t")
    await eventually(lambda: T not in cluster.brokers[1].manager.replicas.hosted)
    await cluster.create_topic("t", replication_factor=1)
    await cluster.produce(T, batch(b"of the new one"))
    path = disk(cluster, 2) / "t-0" / PARTITION_METADATA
    path.write_bytes(b"")
    broker = await cluster.start_broker(2)
    assert broker.logs is not None
    assert list(broker.logs.failed) == [T]
    assert path.read_bytes() == b""


async def test_one_replica_that_cannot_be_loaded_does_not_keep_the_broker_and_comes_back_when_it_can(cluster):
    await cluster.begin(2, min_insync_replicas="1")
    await cluster.create_topic("u", replication_factor=2, min_insync_replicas="1")
    for tp in (T, U):
        await cluster.produce(tp, batch(b"x"))
    await cluster.stop_broker(2)
    path = disk(cluster, 2) / "t-0" / PARTITION_METADATA
    before = path.read_bytes()
    path.write_bytes(b"version: 0\ntopic_id: who knows")
    broker = await cluster.start_broker(2)
    await eventually(lambda: cluster.isr(U) == {1, 2})
    assert cluster.isr(T) == {1}
    assert broker.manager.replicas.leader(T) is ErrorCode.KAFKA_STORAGE_ERROR
    path.write_bytes(before)
    await at_once(cluster, 2)
    await eventually(lambda: cluster.isr(T) == {1, 2})


async def test_a_topic_whose_replica_cannot_be_loaded_is_deleted_and_its_files_are_kept(cluster):
    await cluster.begin(1)
    await cluster.produce(T, batch(b"x"))
    await cluster.stop_broker(1)
    (disk(cluster, 1) / "t-0" / PARTITION_METADATA).write_bytes(b"who knows")
    await cluster.start_broker(1)
    await cluster.delete_topic("t")
    await eventually(lambda: bool(list(disk(cluster, 1).glob("t-0*-stray"))))
    await cluster.create_topic("t", replication_factor=1)
    assert (await cluster.produce(T, batch(b"new")))[:2] == (ErrorCode.NONE, 0)


async def test_a_log_directory_that_is_gone_as_after_an_unmount_is_of_the_disk(cluster):
    """No replica is made again in an empty mount point."""
    broker = await cluster.begin(1)
    home = disk(cluster, 1)
    home.rename(home.with_name("unmounted"))
    home.mkdir()
    with pytest.raises(Exception, match="No such file"):
        cluster.log(1, T).assign_epoch_start(7)
    assert broker.failed
    home.rmdir()
    home.with_name("unmounted").rename(home)


async def fail(cluster: InProcessCluster, broker_id: int) -> Path:
    """Its replica of T, which leads; nobody does until what is answered is removed."""
    log = cluster.log(broker_id, T)
    trap = log.directory / f"{LEADER_EPOCH_CHECKPOINT}.tmp"
    trap.mkdir()
    with pytest.raises(Exception, match="a directory has the name of a file"):
        log.assign_epoch_start(7)
    await eventually(lambda: cluster.leader(T) == -1)
    assert (await shown(cluster, broker_id))["kafka_server_replicamanager_offlinereplicacount"] == 1
    return trap


async def test_the_only_replica_in_sync_leads_again_once_its_files_can_be_read_though_no_other_broker_is_there(
    cluster, monkeypatch
):
    """Nor one that it is being moved to; who asks for the ends of logs does not wait for what is offline (CT-27)."""
    monkeypatch.setattr(active_controller, "LOG_ENDS_S", 600)
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=1)
    first = cluster.leader(T)
    await cluster.produce(T, batch(b"x"))
    await cluster.stop_broker(3 - first)
    async with cluster.admin() as admin:
        assert await admin.alter_partition_reassignments({T: [3 - first]}) == {T: None}
    await eventually(lambda: bool(cluster.brokers[first].manager.context.image.partitions[T].adding))
    trap = await fail(cluster, first)
    async with cluster.admin() as admin, asyncio.timeout(60):
        known = (await admin.describe_log_ends([T]))[T]
    assert [replica.is_offline for replica in known.replicas if replica.broker_id == first] == [True]
    trap.rmdir()
    await at_once(cluster, first)
    await cluster.led(T)
    assert (cluster.leader(T), cluster.log(first, T).log_end_offset) == (first, 1)
    assert (await shown(cluster, first))["kafka_server_replicamanager_offlinereplicacount"] == 0


async def test_a_replica_that_was_moved_away_is_made_again_only_when_nobody_takes_it_for_what_it_was(cluster):
    """Or, alone in the record, it would lead with nothing, and the other one cut itself (CT-29)."""
    await cluster.begin(2, min_insync_replicas="1")
    await cluster.produce(T, batch(b"x"))
    first = cluster.leader(T)
    await cluster.stop_broker(3 - first)
    await eventually(lambda: cluster.isr(T) == {first})
    await fail(cluster, first)
    assert cluster.controller.state.image.partitions[T].last_known_elr == (first,)
    await eventually(lambda: cluster.brokers[first].manager.replicas.is_remembered(T))
    (disk(cluster, first) / "t-0").rename(cluster.directory / "elsewhere")
    await at_once(cluster, first)
    assert T in dict(cluster.brokers[first].manager.replicas.lost())
    await eventually(lambda: not cluster.brokers[first].manager.context.image.partitions[T].last_known_elr)
    await at_once(cluster, first)
    assert T in cluster.brokers[first].manager.replicas.missing
    await cluster.start_broker(3 - first)
    await cluster.led(T)
    assert cluster.leader(T) == 3 - first
    assert cluster.log(3 - first, T).log_end_offset == 1
