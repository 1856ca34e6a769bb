"""Builds the log directories of three brokers, a topic for each way in which replicas may differ, and damages them."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replog.log.directories.clean_shutdown import CLEAN_SHUTDOWN
from replog.log.formats.batch import HEADER_SIZE
from replog.log.formats.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    OffsetCheckpoint,
    write_entries,
)
from replog.log.log import Log
from replog.topic import TopicPartition
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReplicaSegment
from tests.audit import replica_files
from tests.audit.replica_files import remove_segment
from tests.damage.vocabulary import overwrite
from tests.replog.log.batches import append, client_batch, open_log

BATCHES = 30  # of two records: offsets 0 to 59
END = 2 * BATCHES
SETTINGS = {"segment_bytes": 1000, "index_interval_bytes": 150}  # ten batches a segment, an entry every other batch

DAMAGED = [
    "healthy",
    "bit-rot",
    "rotten-crc",
    "rotten-length",
    "rotten-base",
    "epoch",
    "gap",
    "loss-tail",
    "loss-middle",
    "loss-segment",
    "loss-all",
    "index-lie",
    "time-lie",
    "digest-lie",
    "epoch-lie",
    "epoch-missing",
    "index-gone",
    "leftovers",
    "unreadable",
    "unreadable-end",
]
"""Topics that begin as equal replicas."""


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


def build_everything(root: Path) -> Cluster:
    """Every scenario, a topic each; what to expect of them is in `test_audit`."""
    cluster = Cluster(root)
    for topic in DAMAGED:
        cluster.add(topic)
    cluster.patch(2, "bit-rot", 24, HEADER_SIZE + 5, b"\xff")
    cluster.patch(3, "rotten-crc", 24, 17, b"\x01\x02\x03\x04")
    cluster.patch(3, "rotten-length", 24, 8, struct.pack(">i", 70))
    cluster.patch(1, "rotten-base", 24, 0, struct.pack(">q", 77777))
    cluster.patch(2, "epoch", 28, 12, struct.pack(">i", 3))
    for replica in (1, 2, 3):
        cluster.cut_out(replica, "gap", 24)
        for suffix in ("index", "timeindex", "digest"):
            for path in cluster.path(replica, "gap").glob(f"*.{suffix}"):
                path.unlink()
    cluster.truncate(3, "loss-tail", 50)
    cluster.cut_out(2, "loss-middle", 24)
    lost, _, _ = cluster.locate(1, "loss-segment", 24)
    remove_segment(lost)
    shutil.rmtree(cluster.path(3, "loss-all"))
    index = sorted(cluster.path(2, "index-lie").glob("*.index"))[1]
    overwrite(index, 8 + 4, struct.pack(">i", struct.unpack_from(">i", index.read_bytes(), 12)[0] + 1))
    times = sorted(cluster.path(3, "time-lie").glob("*.timeindex"))[1]
    overwrite(times, 12, struct.pack(">q", struct.unpack_from(">q", times.read_bytes(), 12)[0] + 1))
    digests = sorted(cluster.path(1, "digest-lie").glob("*.digest"))[1]
    overwrite(digests, 12 + 4, b"\x00" * 8)
    write_entries(cluster.path(3, "epoch-lie") / "leader-epoch-checkpoint", [(1, 0), (2, 28), (3, 48)])
    (cluster.path(2, "epoch-missing") / "leader-epoch-checkpoint").unlink()
    for path in cluster.path(2, "index-gone").glob("*.*index"):
        path.unlink()
    _damage_ends(cluster)
    _build_unequal(cluster)
    return cluster


def _damage_ends(cluster: Cluster) -> None:
    tail = max(cluster.path(2, "leftovers").glob("*.log"))
    tail.write_bytes(tail.read_bytes() + b"\x5a" * 40)  # a torn write that recovery would cut off
    for topic, choose in (("unreadable", min), ("unreadable-end", max)):
        log = choose(cluster.path(3, topic).glob("*.log"))
        log.unlink()
        log.mkdir()  # opens, but every read fails: what a bad disk does


def _build_unequal(cluster: Cluster) -> None:
    for replica in (1, 2, 3):
        cluster.build(
            replica, "value", changed=lambda n, r=replica: batch(n, b"wrong" if (r, n) == (3, 10) else b"value")
        )
        cluster.build(
            replica,
            "divergent",
            changed=lambda n, r=replica: batch(n, b"other" if r == 2 and n >= 24 else b"value"),
            epochs=lambda n, r=replica: 3 if r == 2 and n >= 24 else 4 if n >= 24 else epoch_of(n),
        )
        cluster.build(replica, "lag", batches=BATCHES if replica == 1 else 25, mark=END if replica == 1 else 48)
        cluster.build(
            replica,
            "tail",
            mark=50 if replica == 2 else 52,
            changed=lambda n, r=replica: batch(n, b"uncommitted" if r == 2 and n >= 26 else b"value"),
        )
        cluster.build(replica, "retention", first=11 if replica == 2 else 0)
        segment_bytes, interval = ((1000, 150), (700, 90), (100_000, 400))[replica - 1]
        cluster.build(replica, "layout", segment_bytes=segment_bytes, index_interval_bytes=interval)
        cluster.build(
            replica,
            "layout-value",
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            changed=lambda n, r=replica: batch(n, b"wrong" if (r, n) == (3, 17) else b"value"),
        )
    _build_out_of_step(cluster)
    del cluster.marks[2][TopicPartition("leftovers", 0)]
    cluster.add("no-mark")
    del cluster.marks[2][TopicPartition("no-mark", 0)]
    cluster.marks[2][TopicPartition("leftovers", 0)] = END
    cluster.build(1, "alone")
    cluster.write_checkpoints()


def _build_out_of_step(cluster: Cluster) -> None:
    """Replica 2 begins in the middle of a batch of the others, and no batch of it begins where one of theirs does."""
    cluster.add("out-of-step", (1, 3))
    log: Log = open_log(cluster.path(2, "out-of-step"), log_start_offset=23, **SETTINGS)
    for number in range(12, BATCHES):
        append(log, batch(number), epoch=epoch_of(number))
    log.close()
    cluster.marks[2][TopicPartition("out-of-step", 0)] = END - 1


def segments(cluster: Cluster, replica: int = 1) -> tuple[ReplicaSegment, ...]:
    """Those of a broker that has one partition."""
    (files,) = DirectoryStore(replica, cluster.directories[replica]).partitions(frozenset())
    assert files.error is None
    return files.segments


def path_of(segment: ReplicaSegment, suffix: str) -> Path:
    assert isinstance(segment.store, DirectoryStore)
    return segment.store.path(segment, suffix)
