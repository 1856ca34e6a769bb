"""Moves between log directories whose disks have no room, or fail (7.7)."""

from typing import Any

import pytest

from follower.future_replica import FutureReplica
from replog.errors import ErrorCode
from replog.log.directories import changes
from replog.log.directories.changes import DirectoryChange
from replog.log.directories.log_directory import LogDirectory
from replog.log.errors import LogStorageError
from replog.server.broker.disks import moves
from tests.replog.server.broker.conftest import eventually
from tests.replog.server.broker.disks.moving import (
    TP,
    begin,
    fill,
    future,
    move,
    one_replica,
    other,
    place,
    slowly,
    start,
)


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
