"""Replicas that move between the log directories of their broker (7.7), through the whole cluster; and those whose
disks have no room, or fail."""

import asyncio
import os
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from follower.future_replica import FutureReplica
from follower.partition_follower import FollowerProgress
from replog.client.records import encode_batch
from replog.errors import ErrorCode
from replog.log.directories import changes
from replog.log.directories.changes import DirectoryChange, LogChange
from replog.log.directories.log_directory import LogDirectory
from replog.log.errors import LogStorageError
from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from replog.server.broker.disks import moves
from replog.topic import TopicPartition
from tests.replog.log.batches import files_of
from tests.replog.log.compaction.compacting import latest_of, records_of
from tests.replog.log_tools.verify.directories import faults
from tests.replog.server.broker.conftest import CALL_S, InProcessCluster, batch, eventually
from tests.replog.server.broker.disks.moving import (
    SMALL,
    TP,
    begin,
    caught_up,
    disks,
    fill,
    future,
    held_back,
    load,
    move,
    one_replica,
    other,
    place,
    slowly,
    start,
    under_way,
    values,
)


def whole_files(cluster: InProcessCluster, broker_id: int) -> dict[str, bytes]:
    """Its files, with the entries of indexes that were left for later."""
    log = cluster.log(broker_id, TP)
    log.write_indexes()
    return files_of(log.directory)


@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_a_replica_moves_under_load_and_stays_what_it_was(cluster, role, monkeypatch):
    """Not a record is lost, and its files are those of the other replicas (divergence 2)."""
    monkeypatch.setattr(moves, "SLICE_BYTES", 2000)
    await begin(cluster, 3, **SMALL)
    await fill(cluster)
    leader = cluster.leader(TP)
    mover = leader if role == "leader" else next(iter({1, 2, 3} - {leader}))
    old, target = cluster.log(mover, TP), other(cluster, mover)
    async with load(cluster) as acknowledged:
        assert await move(cluster, mover, target) is None
        await eventually(lambda: place(cluster, mover) == target, what=lambda: future(cluster, mover))
        moved_at = len(acknowledged)
        await eventually(lambda: len(acknowledged) > moved_at + 50)
    await caught_up(cluster, 1, 2, 3)
    assert cluster.leader(TP) == leader
    assert cluster.isr(TP) == {1, 2, 3}
    produced = await values(cluster)
    assert set(acknowledged) <= set(produced)
    files = [whole_files(cluster, broker_id) for broker_id in (1, 2, 3)]
    assert len(files[0]) > 10
    assert files[0] == files[1] == files[2]
    assert old.failure is not None, "closed"
    assert len(list(old.directory.parent.glob("t-0.*-delete"))) == 1
    await cluster.stop_broker(mover)
    assert not faults(*disks(cluster, mover))
    await start(cluster, mover)
    assert place(cluster, mover) == target
    assert cluster.log(mover, TP).log_end_offset == cluster.log(leader, TP).log_end_offset


async def test_a_move_to_where_it_is_calls_the_move_off(cluster, monkeypatch):
    go_on = await slowly(monkeypatch)
    await one_replica(cluster, 30)
    here, target = place(cluster, 1), other(cluster, 1)
    assert await move(cluster, 1, here) is None
    assert future(cluster, 1) is None, "nothing to do"
    assert await move(cluster, 1, target) is None
    copy = future(cluster, 1)
    assert await move(cluster, 1, target) is None
    assert future(cluster, 1) is copy is not None, "goes on"
    await eventually(lambda: copy.log_end_offset >= 20)
    assert await move(cluster, 1, here) is None
    assert future(cluster, 1) is None
    go_on()
    await asyncio.sleep(0.2)
    assert place(cluster, 1) == here
    assert not list(target.glob("*-future"))
    await fill(cluster, 1)
    assert await move(cluster, 1, target) is None
    await eventually(lambda: place(cluster, 1) == target)


async def test_a_topic_that_is_deleted_takes_the_copy_along(cluster, monkeypatch):
    """LG-17; a new topic of that name is not confused with it."""
    go_on = await slowly(monkeypatch)
    await one_replica(cluster, 30)
    await under_way(cluster, 1)
    await cluster.delete_topic("t")
    await eventually(
        lambda: not [path for disk in disks(cluster, 1) for path in (*disk.glob("*-future"), *disk.glob("t-0"))]
    )
    go_on()
    await cluster.create_topic("t", replication_factor=1)
    await fill(cluster, 3)
    target = other(cluster, 1)
    assert await move(cluster, 1, target) is None
    await eventually(lambda: place(cluster, 1) == target)
    assert cluster.log(1, TP).log_end_offset == 6
    assert not cluster.brokers[1].failed


async def test_a_topic_that_is_deleted_while_a_copy_is_begun_takes_it_along(cluster, monkeypatch):
    await one_replica(cluster, 3)
    begun, go_on, run = threading.Event(), threading.Event(), LogChange.run

    def held(change: LogChange) -> None:
        begun.set()
        assert go_on.wait(60)
        run(change)

    monkeypatch.setattr(LogChange, "run", held)
    moving = asyncio.create_task(move(cluster, 1, other(cluster, 1)))
    await eventually(begun.is_set)
    await cluster.delete_topic("t")
    await eventually(lambda: not any((disk / "t-0").exists() for disk in disks(cluster, 1)))
    go_on.set()
    assert await moving is None
    assert future(cluster, 1) is None
    assert not [path for disk in disks(cluster, 1) for path in disk.glob("*-future")]


async def test_nobody_on_the_loop_waits_for_the_disk_when_a_move_begins_or_is_called_off(cluster, monkeypatch):
    await slowly(monkeypatch)
    await one_replica(cluster, 30)
    here, fsync, waited = place(cluster, 1), os.fsync, Counter[bool]()

    def noted(fd: int) -> None:
        waited[threading.current_thread() is threading.main_thread()] += 1
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    await under_way(cluster, 1)
    assert await move(cluster, 1, here) is None
    assert future(cluster, 1) is None
    assert waited[False] >= 4
    assert not waited[True]


@pytest.mark.parametrize("clean", [True, False])
async def test_a_restart_goes_on_with_the_copy(cluster, monkeypatch, clean):
    go_on = await slowly(monkeypatch)
    await begin(cluster, 3, **SMALL)
    await fill(cluster)
    mover = cluster.leader(TP)
    target, _ = await under_way(cluster, mover)
    if clean:
        await cluster.stop_broker(mover)
        assert not faults(*disks(cluster, mover))
    else:
        await cluster.crash_broker(mover)
    await cluster.led(TP)
    await fill(cluster, 5)
    await start(cluster, mover)
    resumed = future(cluster, mover)
    assert resumed is not None
    assert resumed.log_end_offset >= 20, "not from the beginning"
    go_on()
    await eventually(lambda: place(cluster, mover) == target)
    await caught_up(cluster, 1, 2, 3)
    files = [whole_files(cluster, broker_id) for broker_id in (1, 2, 3)]
    assert files[0] == files[1] == files[2]


async def test_a_truncation_of_the_replica_cuts_the_copy_too(cluster, monkeypatch):
    """7.7: by its own log, whatever the epochs would tell."""
    go_on = await slowly(monkeypatch)
    await one_replica(cluster, 30)
    target, _ = await under_way(cluster, 1)
    log = cluster.log(1, TP)
    log.truncate_to(8)
    cluster.brokers[1].manager.replicas.hosted[TP].leader._reached = 8  # as if it had been elected just now
    log.append_as_leader(batch(b"rewritten", b"in the same epoch"), leader_epoch=log.epochs.latest_epoch or 0, now_ms=0)
    for _ in range(10):
        log.append_as_leader(batch(b"more", b"more"), leader_epoch=log.epochs.latest_epoch or 0, now_ms=0)
    go_on()
    await eventually(lambda: place(cluster, 1) == target)
    moved = cluster.log(1, TP)
    assert whole_files(cluster, 1) == files_of(next(log.directory.parent.glob("t-0.*-delete")))
    assert moved.log_end_offset == 30


async def test_records_deleted_during_a_move_stay_deleted(cluster, monkeypatch):
    """LG-16, FT-19: below what was copied the log start follows; beyond it the copy starts again."""
    go_on = await slowly(monkeypatch)
    await begin(cluster, 2, **SMALL)
    await fill(cluster)
    movers = {1: 7, 2: 50}
    for mover, offset in movers.items():
        await under_way(cluster, mover)
        request = log_pb2.DeleteRecordsRequest(
            timeout_ms=60_000, partitions=[log_pb2.DeleteRecordsPartition(topic="t", partition=0, offset=offset)]
        )
        response = await cluster.to_leader(TP).call(methods.Log["delete_records"], request, CALL_S)
        assert response.partitions[0].low_watermark == offset
    go_on()
    for mover in movers:
        await eventually(lambda mover=mover: future(cluster, mover) is None)
        await eventually(lambda mover=mover: cluster.log(mover, TP).log_start_offset == 50)
        assert cluster.log(mover, TP).log_end_offset == 80
    assert len(await values(cluster)) == 30
    for mover in movers:
        await cluster.crash_broker(mover)
    await start(cluster, 1)
    assert cluster.log(1, TP).log_start_offset == 50, "checkpointed before the swap"


async def test_who_waits_for_a_flush_of_the_log_is_answered_when_a_flushed_copy_takes_its_place(cluster):
    """LG-18: the old log's flush comes to nothing."""
    await start(cluster, 1, replica_lag_time_max_ms=600_000)  # no look at the ISR comes to their help
    await cluster.create_topic("t", replication_factor=1, flush_messages="1")
    await fill(cluster, 5)
    held_back(cluster, 1)
    target = other(cluster, 1)
    producing = asyncio.create_task(cluster.produce(TP, batch(b"waits"), acks=1))
    await eventually(lambda: cluster.log(1, TP).log_end_offset == 11)
    assert not producing.done()
    assert await move(cluster, 1, target) is None
    assert (await producing)[0] is ErrorCode.NONE
    assert place(cluster, 1) == target


async def test_a_log_that_settles_something_is_swapped_after_that_and_its_replica_fetches_on(cluster, monkeypatch):
    """LG-10: its follower asks for nothing until then, and nobody would tell it (`directories` 840027)."""
    copies, copy = [], FutureReplica.copy

    def counted(self: FutureReplica, *how: Any) -> FollowerProgress:
        copies.append(self.caught_up)
        return copy(self, *how)

    monkeypatch.setattr(FutureReplica, "copy", counted)
    await begin(cluster, 2, min_insync_replicas="1")
    await fill(cluster, 5)
    mover = 3 - cluster.leader(TP)
    here, target = place(cluster, mover), other(cluster, mover)
    go_on = held_back(cluster, mover)
    cluster.log(mover, TP).hide_all()
    assert await move(cluster, mover, target) is None
    await eventually(lambda: copies.count(True) > 20)
    assert place(cluster, mover) == here
    go_on()
    await eventually(lambda: place(cluster, mover) == target)
    await fill(cluster, 1)
    await caught_up(cluster, 1, 2)
    assert cluster.log(mover, TP).log_end_offset == 12


async def test_a_name_that_fits_no_future_logs_directory_is_refused(cluster):
    """FN-1."""
    await start(cluster, 1)
    long = TopicPartition("x" * 249, 0)
    await cluster.create_topic(long.topic, replication_factor=1)
    [target] = {*disks(cluster, 1)} - {place(cluster, 1, long)}
    async with cluster.admin() as admin:
        refused = await admin.alter_replica_log_dirs(1, {long: str(target)})
    assert [error and error.code for error in refused.values()] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


async def test_a_replica_does_not_go_where_it_has_no_room(cluster, monkeypatch):
    await one_replica(cluster, 30)
    size, here, there = cluster.log(1, TP).size, place(cluster, 1), other(cluster, 1)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=size, free=size - 1))
    error = await move(cluster, 1, there)
    assert error is not None
    assert error.message == f"t-0 has {size:,} bytes, and {there} has room for {size - 1:,}; make room there"
    assert future(cluster, 1) is None
    assert await move(cluster, 1, here) is None, "it is there, and needs no room"


async def test_log_directories_are_described(cluster, monkeypatch):
    await slowly(monkeypatch)
    await begin(cluster, 1)
    await cluster.create_topic("u", replication_factor=1)
    await fill(cluster, 30)
    target, copy = await under_way(cluster, 1)
    async with cluster.admin() as admin:
        described = (await admin.describe_log_dirs([1]))[1]
        assert [disk.log_dir for disk in described] == [str(disk) for disk in disks(cluster, 1)]
        assert all(0 < disk.usable_bytes < disk.total_bytes for disk in described)
        replicas = {(disk.log_dir, tp): info for disk in described for tp, info in disk.replicas}
        assert len(replicas) == 3
        current, moving = replicas[str(place(cluster, 1)), TP], replicas[str(target), TP]
        assert (current.size, current.offset_lag, current.is_future) == (cluster.log(1, TP).size, 0, False)
        assert (moving.size, moving.offset_lag, moving.is_future) == (copy.size, 60 - copy.log_end_offset, True)
        only = (await admin.describe_log_dirs([1], ["u"]))[1]
        assert [tp for disk in only for tp, _ in disk.replicas] == [TopicPartition("u", 0)]


async def test_a_compacted_log_is_not_compacted_while_it_moves_and_is_afterwards(cluster, monkeypatch):
    """CL-5: a tombstone that goes after what it deletes was copied would bring that back."""
    go_on = await slowly(monkeypatch)
    await start(cluster, 1, log_cleaner_backoff_ms=20)
    await cluster.create_topic(
        "t", replication_factor=1, cleanup_policy="compact", segment_bytes="4000", min_cleanable_dirty_ratio="0.01"
    )
    target = other(cluster, 1)
    await move(cluster, 1, target)
    for number in range(40):
        pairs = [(1000, b"k%d" % key, b"%d" % number + bytes(200), []) for key in range(5)]
        assert (await cluster.produce(TP, bytes(encode_batch(pairs))))[0] is ErrorCode.NONE
    await asyncio.sleep(0.3)
    log = cluster.log(1, TP)
    assert len(records_of(log)) == 200
    go_on()
    await eventually(lambda: place(cluster, 1) == target)
    log = cluster.log(1, TP)
    await eventually(lambda: len(records_of(log)) < 60, what=lambda: log.segments)
    assert latest_of(log) == {b"k%d" % key: b"39" + bytes(200) for key in range(5)}
    clean = {disk: disk / "cleaner-offset-checkpoint" for disk in disks(cluster, 1)}
    await eventually(lambda: clean[target].exists() and "t 0 " in clean[target].read_text())
    here = other(cluster, 1)
    await move(cluster, 1, here)
    await eventually(lambda: place(cluster, 1) == here)
    assert latest_of(cluster.log(1, TP)) == {b"k%d" % key: b"39" + bytes(200) for key in range(5)}
    await eventually(lambda: "t 0 " in clean[here].read_text(), what=lambda: "clean as far as it was")


@pytest.mark.parametrize("fault", ["no room", "no room any longer", "a failing disk"])
async def test_a_directory_that_cannot_take_the_copy_only_ends_the_move(cluster, monkeypatch, fault):
    """The copy goes, and the broker goes on: else it would fill the disk again after each start."""
    go_on = await slowly(monkeypatch)
    await one_replica(cluster, 30)
    here, target = place(cluster, 1), other(cluster, 1)
    copy = FutureReplica.copy

    def failing(self: FutureReplica, *how: Any) -> object:
        copy(self, *how)
        raise LogStorageError(f"{self.log.directory}: no space left on device")

    if fault == "no room":
        monkeypatch.setattr(moves, "ROOM_BYTES", 1 << 60)
    assert await move(cluster, 1, target) is None
    if fault != "no room":
        await eventually(lambda: (moving := future(cluster, 1)) is not None and moving.log_end_offset >= 20)
    if fault == "no room any longer":
        monkeypatch.setattr(moves, "ROOM_BYTES", 1 << 60)
    if fault == "a failing disk":
        monkeypatch.setattr(FutureReplica, "copy", failing)
    go_on()
    await eventually(lambda: not list(target.glob("t-0*")))
    assert future(cluster, 1) is None
    await fill(cluster, 1)
    assert place(cluster, 1) == here
    assert not cluster.brokers[1].failed
    monkeypatch.undo()
    assert await move(cluster, 1, target) is None
    await eventually(lambda: place(cluster, 1) == target)


@pytest.mark.parametrize("step", ["take_away", "promote_future"])
async def test_a_swap_that_stops_halfway_stops_the_broker_and_its_next_start_finishes_it(cluster, monkeypatch, step):
    """7.7: nothing may be written to a log whose directory is about to go, and no stop be told clean."""
    await one_replica(cluster, 3)
    target = other(cluster, 1)

    def failing(self: LogDirectory | DirectoryChange, *_: object) -> None:
        if isinstance(self, LogDirectory):
            del self._futures[TP]
        raise LogStorageError(f"{self.directory}: input/output error")

    monkeypatch.setattr(LogDirectory if step == "promote_future" else DirectoryChange, step, failing)
    assert await move(cluster, 1, target) is None
    await eventually(lambda: cluster.brokers[1].failed)
    monkeypatch.undo()
    await cluster.stop_broker(1)
    await start(cluster, 1)
    await eventually(lambda: place(cluster, 1) == target)
    assert cluster.log(1, TP).log_end_offset == 6


async def test_a_copy_that_cannot_be_begun_leaves_nothing(cluster, monkeypatch):
    await begin(cluster, 1)
    target = other(cluster, 1)

    def failing(*_: object, **__: object) -> None:
        raise LogStorageError(f"{target}: no space left on device")

    monkeypatch.setattr(changes, "empty_log", failing)
    error = await move(cluster, 1, target)
    assert error is not None
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not list(target.glob("t-0*"))
    monkeypatch.undo()
    await fill(cluster, 1)
    assert not cluster.brokers[1].failed
