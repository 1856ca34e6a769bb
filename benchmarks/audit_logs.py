"""Makes the logs for the benchmark of the audit: three equal replicas of one partition, as brokers leave them.

The first is written by our log with its defaults: segments of 1 GiB, an index entry every 4 KiB, digests. Its batches
have records of about a KiB that nothing can compress. The others are copies of its files; everything is synced, and
each high watermark is the log end.
"""

import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path

from benchmarks.storage import MIB
from replog.client.records import BatchBuilder
from replog.config.topic import TopicConfig
from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, OffsetCheckpoint
from replog.log.log import Log
from replog.topic import TopicPartition

REPLICAS = (1, 2, 3)
RECORD_BYTES = 1000  # a value's
START_MS = 1_700_000_000_000
_PARTITION = TopicPartition("benchmark", 0)


class Replicas:
    """Three replicas under `root`; `grow` makes them larger."""

    def __init__(self, root: Path, batch_bytes: int) -> None:
        self.directories = {replica: root / str(replica) for replica in REPLICAS}
        self._batch_bytes = batch_bytes
        self._random = os.urandom(8 * MIB)
        self._rng = random.Random(1)
        self._now_ms = START_MS
        for directory in self.directories.values():
            (directory / _PARTITION.directory_name).mkdir(parents=True)

    def grow(self, size: int) -> None:
        """Append to each replica until its log has `size` bytes."""
        first, *others = (self.directories[replica] / _PARTITION.directory_name for replica in REPLICAS)
        log = Log.open(first, TopicConfig(), clean=True)
        left = size - _bytes(first.glob(f"*{LOG_SUFFIX}"))
        while left > 0:
            batch = self._batch()
            log.append_as_leader(batch, leader_epoch=0, now_ms=self._now_ms)
            left -= len(batch)
        log.close()
        for other in others:
            shutil.rmtree(other)
            shutil.copytree(first, other)
        os.sync()
        for directory in self.directories.values():
            OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).write({_PARTITION: log.log_end_offset})
            OffsetCheckpoint(directory / LOG_START_CHECKPOINT).write({})

    def _batch(self) -> bytearray:
        self._now_ms += 1
        builder = BatchBuilder(self._batch_bytes)
        while builder.append(self._now_ms, None, self._value(), ()):
            pass
        return bytearray().join(builder.build())

    def _value(self) -> bytes:
        start = self._rng.randrange(len(self._random) - RECORD_BYTES)
        return self._random[start : start + RECORD_BYTES]

    def files(self) -> list[Path]:
        """Return the logs and indexes of all segments of all replicas."""
        return [path for directory in self.directories.values() for path in sorted(directory.glob("*/*.*"))]

    def first_log(self) -> Path:
        """Return the log of the first segment of one replica."""
        return min(self.directories[REPLICAS[0]].glob(f"*/*{LOG_SUFFIX}"))

    @property
    def log_bytes(self) -> int:
        return _bytes(path for path in self.files() if path.suffix == LOG_SUFFIX)

    @property
    def all_bytes(self) -> int:
        return _bytes(self.files())


def _bytes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def read_all(paths: Iterable[Path]) -> None:
    """Read files, so that they are in memory."""
    buffer = bytearray(MIB)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def forget_all(paths: Iterable[Path]) -> None:
    """Drop files from memory, so that they are only on disk."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
