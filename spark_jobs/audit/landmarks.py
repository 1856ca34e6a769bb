"""Landmarks show that a replica is still the one that was verified up to an offset: a few bytes, and its directory.

They need no Spark, and a few small reads of each replica.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from replog.errors import ReplogError
from replog.log.errors import CorruptRecord
from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.walk import LogFile
from replog.topic import TopicPartition
from spark_jobs.audit.evidence import find_batch
from spark_jobs.replicas.files import PartitionFiles, ReplicaStore

FilesOfReplicas = Mapping[TopicPartition, Mapping[int, PartitionFiles]]
BatchSeen = tuple[int, int, int, int]  # base offset, last offset, leader epoch, CRC


@dataclass(frozen=True)
class Landmark:
    """One replica at an offset below which it is verified."""

    log_start: int
    epochs: tuple[tuple[int, int], ...]  # only epochs that begin below the offset
    last_batch: BatchSeen | None  # the last one below the offset; None: the log starts there, or later
    topic_id: str = ""
    directory: str = ""  # an identity that no other directory of its name has; empty for a live broker

    def misfit(self, now: "Landmark", offset: int) -> str | None:
        """Say why `now`, taken at the same `offset`, is not the same replica later on; None if it is."""
        if self.topic_id != now.topic_id:
            return f"belongs to another topic of that name (topic id {now.topic_id or 'none'})"
        if self.directory != now.directory:
            return "was replaced: its directory is another one"
        if now.log_start < self.log_start:
            return f"starts at {now.log_start}, it started at {self.log_start}"
        start = max(self.log_start, now.log_start)
        if _lineage(self.epochs, start, offset) != _lineage(now.epochs, start, offset):
            return f"has other leader epochs below {offset}"
        if now.log_start < offset and self.last_batch != now.last_batch:
            return f"was truncated below {offset}: the last batch there is another one, or was compacted"
        return None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Landmark":
        """Parse a landmark. Raises ValueError, KeyError, TypeError."""
        epochs = tuple((int(epoch), int(start)) for epoch, start in stored["epochs"])
        batch = stored["last_batch"]
        if batch is not None:
            base, last, epoch, crc = map(int, batch)
            batch = base, last, epoch, crc
        return cls(int(stored["log_start"]), epochs, batch, str(stored["topic_id"]), str(stored["directory"]))


def _lineage(epochs: tuple[tuple[int, int], ...], start: int, end: int) -> list[tuple[int, int]]:
    """Return the epochs of the offsets from `start` to `end`; the first begins at `start` even if it is older."""
    before = [entry for entry in epochs if entry[1] <= start][-1:]
    return [(epoch, max(at, start)) for epoch, at in [*before, *(e for e in epochs if start < e[1] < end)]]


def list_replicas(
    stores: Iterable[ReplicaStore], topics: Iterable[str]
) -> dict[TopicPartition, dict[int, PartitionFiles]]:
    """Return every replica that can be listed; of several stores that name it, from the one that has segments."""
    listed: dict[TopicPartition, dict[int, PartitionFiles]] = {}
    for store in stores:
        for files in store.partitions(frozenset(topics)):
            held = listed.setdefault(files.partition, {})
            if files.replica not in held or files.segments:
                held[files.replica] = files
    return listed


def landmark(files: PartitionFiles, offset: int) -> Landmark | str:
    """Return the landmark of the replica at `offset`, or a text that says why there is none."""
    if files.error is not None:
        return f"cannot be read: {files.error}"
    if not files.segments:
        return "has no segments"
    checkpoint = files.epochs()
    if checkpoint.fault is not None:
        return f"has an epoch checkpoint that cannot be used: {checkpoint.detail}"
    epochs = tuple(entry for entry in checkpoint.entries if entry[1] < offset)
    try:
        batch = _batch_below(files, offset) if files.log_start < offset else None
        directory = files.store.identity(files.partition)
    except (OSError, ReplogError) as error:
        return f"cannot be read: {error}"
    if batch is None and files.log_start < offset:
        return f"ends below {offset}, or was compacted there"
    return Landmark(files.log_start, epochs, batch, files.topic_id or "", directory)


def _batch_below(files: PartitionFiles, offset: int) -> BatchSeen | None:
    """Return the batch that has the offset before `offset`, or None."""
    held = [segment for segment in files.segments if segment.base < offset]
    if not held:
        return None
    with held[-1].open(LOG_SUFFIX) as file:
        log = LogFile(file, 4096)
        position = find_batch(held[-1], log, offset - 1)
        if position is None:
            return None
        try:
            header = log.header(position)
        except CorruptRecord:
            return None
    return header.base_offset, header.last_offset, header.leader_epoch, header.crc
