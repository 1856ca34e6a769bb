"""Logs that come, go and move between two log directories, for tests."""

import os
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from follower.future_replica import FutureReplica
from replog.config.topic import TopicConfig
from replog.log.directories.changes import DirectoryChange, LogChange, NewReplica
from replog.log.directories.checkpoints import Checkpoints
from replog.log.directories.log_directory import LogDirectory, Report
from replog.log.directories.log_manager import LogManager
from replog.log.epochs import EpochEntry
from replog.log.log import Log
from replog.topic import TopicPartition
from tests.leader.replicas import bytes_of
from tests.replog.log.batches import append, client_batch, config

TP = TopicPartition("a-b", 12)
OTHER = TopicPartition("t", 0)
ID = bytes(range(16))
PAIR = client_batch(b"a", b"b")
CONFIG = config(segment_bytes=300)


def take(*disks: Path, rng: int = 1) -> LogManager:
    return LogManager(disks, cluster_id="c", node_id=3, randbytes=random.Random(rng).randbytes)


def start(*disks: Path, rng: int = 1) -> LogManager:
    directories = take(*disks, rng=rng)
    directories.load(lambda tp: CONFIG)
    return directories


def open_directory(
    path: Path, topic: TopicConfig | None = None, report: Report | None = None, *, load: bool = True
) -> LogDirectory:
    """One of a broker, with all its logs if `load`."""
    directory = LogDirectory(path, cluster_id="c", node_id=3, randbytes=os.urandom)
    try:
        if load:
            directory.load(lambda _: topic or config(), report)
    except BaseException:
        directory.abandon()
        raise
    return directory


def place(directories: LogManager, tp: TopicPartition = TP) -> Path:
    return directories.logs[tp].directory.parent


def carry_out(change: LogChange | DirectoryChange) -> None:
    for _ in change.steps():
        pass
    if isinstance(change, LogChange) and change.broken:
        raise change.broken[0]


def planned(
    directories: LogManager,
    gone: Iterable[TopicPartition] = (),
    new: Mapping[TopicPartition, NewReplica] = MappingProxyType({}),
    leading: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> LogChange:
    """A change, to be carried out and committed."""
    change = LogChange()
    for tp in gone:
        directories.plan_deletion(tp, change)
    for tp, replica in new.items():
        directories.plan_creation(tp, replica, change)
    for tp, epoch in leading.items():
        directories.plan_leadership(tp, epoch, change)
    return change


def created(here: LogDirectory | LogManager, tp: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
    """A replica that is placed here. Raises why it cannot come."""
    replica = NewReplica(topic_id, config)
    if isinstance(here, LogManager):
        _commit(here, planned(here, new={tp: replica}))
    else:
        change = here.change()
        change.new[tp] = replica
        _commit(here, change)
    return here.logs[tp]


def deleted(here: LogDirectory | LogManager, tp: TopicPartition, now_ms: int = 0) -> None:
    """A replica that goes."""
    if isinstance(here, LogManager):
        _commit(here, planned(here, gone=[tp]), now_ms)
    else:
        change = here.change()
        here.plan_deletion(tp, change)
        _commit(here, change, now_ms)


def move(directories: LogManager, tp: TopicPartition, directory: str) -> None:
    """It gets a copy there, or needs none any more."""
    change = LogChange()
    directories.plan_move(tp, directory, change)
    _commit(directories, change)


def _commit(here: Any, change: LogChange | DirectoryChange, now_ms: int = 0) -> None:
    carry_out(change)
    here.commit(change, now_ms)
    for failure in change.failures.values():
        raise failure


def filled(directories: LogManager) -> Log:
    """Four segments, three epochs, the last one without a record; offsets below 3 deleted."""
    log = append(created(directories, TP, ID, CONFIG), *[PAIR] * 6, epoch=1)
    append(log, *[PAIR] * 6, epoch=4)
    log.assign_epoch_start(5)
    log.update_high_watermark(20)
    log.maybe_increment_log_start_offset(3)
    directories.checkpoint(Checkpoints.write_log_starts)
    return log


def copied(directories: LogManager, slice_bytes: int = 200) -> FutureReplica:
    current, future = directories.logs[TP], directories.futures[TP].log
    replica = FutureReplica(TP, current, future, backoff_ms=1)
    directories.on_truncated = lambda _tp, log: (
        replica.current_truncated(log.log_end_offset) if log is current else None
    )
    for now_ms in range(0, 4000, 10):
        replica.copy(slice_bytes, now_ms)
        if replica.caught_up:
            return replica
    raise AssertionError(f"{future.log_end_offset} of {current.log_end_offset}")


def swapped(directories: LogManager) -> Log:
    """The copy, which has all, takes its log's place."""
    current, future = directories.logs[TP], directories.futures[TP].log
    future.flush(current.recovery_point)
    preparation = directories.preparation(TP)
    preparation.run()
    preparation.done()
    assert directories.is_prepared(TP, preparation)
    log = directories.swap(TP, 0)
    directories.swapped()
    return log


def told(log: Log) -> tuple[int, int, tuple[EpochEntry, ...], bytes]:
    """All that a reader can know of a log."""
    return log.log_start_offset, log.log_end_offset, log.epochs.entries, bytes_of(log)
