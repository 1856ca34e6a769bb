"""Builds the log directories of three brokers, and damages them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, OffsetCheckpoint
from replog.log.log import Log
from replog.topic import TopicPartition
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReplicaSegment
from tests.audit import replica_files
from tests.damage.vocabulary import overwrite
from tests.replog.log.batches import append, client_batch, open_log

BATCHES = 30  # of two records: offsets 0 to 59
END = 2 * BATCHES
SETTINGS = {"segment_bytes": 1000, "index_interval_bytes": 150}  # ten batches a segment, an entry every other batch


def batch(number: int, value: bytes = b"value") -> bytes:
    return client_batch(value + b"%04d" % number, b"second", timestamps=[1000 + number, 1001 + number])


def epoch_of(number: int) -> int:
    return 1 + number // 12


class Cluster:
    """Directories `1`, `2` and `3` under `root`; `add` makes one partition on all of them."""

    def __init__(self, root: Path) -> None:
        self.directories = {replica: root / str(replica) for replica in (1, 2, 3)}
        self.marks: dict[int, dict[TopicPartition, int]] = {1: {}, 2: {}, 3: {}}
        self.starts: dict[int, dict[TopicPartition, int]] = {1: {}, 2: {}, 3: {}}
        for directory in self.directories.values():
            directory.mkdir(parents=True)
        self.write_checkpoints()

    def path(self, replica: int, topic: str) -> Path:
        return self.directories[replica] / f"{topic}-0"

    def options(self) -> list[str]:
        """For a command: where the replicas are."""
        return [f"--replica={replica}={directory}" for replica, directory in self.directories.items()]

    def add(self, topic: str, replicas: tuple[int, ...] = (1, 2, 3)) -> None:
        for replica in replicas:
            self.build(replica, topic)

    def build(
        self,
        replica: int,
        topic: str,
        *,
        batches: int = BATCHES,
        mark: int = END,
        changed: Callable[[int], bytes] = lambda number: batch(number),
        first: int = 0,
        epochs: Callable[[int], int] = epoch_of,
        **settings: Any,
    ) -> None:
        """Write one replica again, from batch `first` to `batches`."""
        shutil.rmtree(self.path(replica, topic), ignore_errors=True)
        log: Log = open_log(self.path(replica, topic), log_start_offset=2 * first, **{**SETTINGS, **settings})
        for number in range(first, batches):
            append(log, changed(number), epoch=epochs(number))
        log.close()
        self.marks[replica][TopicPartition(topic, 0)] = mark
        self.write_checkpoints()

    def extend(
        self,
        topic: str,
        first: int,
        batches: int,
        changed: Callable[[int, int], bytes] = lambda replica, number: batch(number),
        replicas: tuple[int, ...] = (1, 2, 3),
    ) -> None:
        """Append batches from `first` to `batches`, all committed, as running brokers do: in the same files."""
        for replica in replicas:
            log = open_log(self.path(replica, topic), **SETTINGS)
            for number in range(first, batches):
                append(log, changed(replica, number), epoch=epoch_of(number))
            log.close()
            self.marks[replica][TopicPartition(topic, 0)] = 2 * batches
        self.write_checkpoints()

    def write_checkpoints(self) -> None:
        for replica, directory in self.directories.items():
            OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).write(self.marks[replica])
            OffsetCheckpoint(directory / LOG_START_CHECKPOINT).write(self.starts[replica])
            (directory / CLEAN_SHUTDOWN).touch()

    def locate(self, replica: int, topic: str, offset: int) -> tuple[Path, int, int]:
        """The `.log` file, position and size of the batch that begins with `offset`."""
        place = replica_files.locate(self.path(replica, topic), offset)
        return place.path, place.position, place.header.size

    def patch(self, replica: int, topic: str, offset: int, at: int, data: bytes) -> None:
        """Overwrite bytes `at` (from the batch's start) of the batch that begins with `offset`."""
        path, position, _ = self.locate(replica, topic, offset)
        overwrite(path, position + at, data)

    def cut_out(self, replica: int, topic: str, offset: int) -> None:
        """Take one batch out of the middle of its file."""
        replica_files.cut_out(self.path(replica, topic), offset)

    def truncate(self, replica: int, topic: str, offset: int) -> None:
        """Cut the log before the batch that begins with `offset`, as a careless hand would."""
        replica_files.truncate(self.path(replica, topic), offset)


def segments(cluster: Cluster, replica: int = 1) -> tuple[ReplicaSegment, ...]:
    """Those of a broker that has one partition."""
    (files,) = DirectoryStore(replica, cluster.directories[replica]).partitions(frozenset())
    assert files.error is None
    return files.segments


def path_of(segment: ReplicaSegment, suffix: str) -> Path:
    assert isinstance(segment.store, DirectoryStore)
    return segment.store.path(segment, suffix)
