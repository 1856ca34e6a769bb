"""Saved audits: how far replicas were verified, and landmarks which show that they are still the same replicas.

An audit with a saved one compares each partition from there on. If a landmark, a few bytes and the directory of a
replica, does not fit any longer, it compares the whole partition, and says why. This needs no Spark, and a few small
reads of each replica.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from replog.errors import ReplogError
from replog.log.errors import CorruptRecord
from replog.log.files.names import LOG_SUFFIX
from replog.log.files.opening import write_atomically
from replog.log.formats.walk import LogFile
from replog.topic import TopicPartition
from spark_jobs.audit.evidence import find_batch
from spark_jobs.audit.findings import LEVELS
from spark_jobs.replicas.describe import Replica
from spark_jobs.replicas.files import PartitionFiles, ReplicaStore

FORMAT, VERSION = "replog saved audit", 1
MAX_BYTES = 256 << 20

FilesOfReplicas = Mapping[TopicPartition, Mapping[int, PartitionFiles]]
BatchSeen = tuple[int, int, int, int]  # base offset, last offset, leader epoch, CRC


class BadSaved(Exception):
    """A file is not one that an audit saved, or is of another version. The message names the file and the remedy."""


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


@dataclass(frozen=True)
class SavedPartition:
    """A partition whose replicas were compared below `verified_to` without a finding."""

    verified_to: int
    replicas: Mapping[int, Landmark]


@dataclass(frozen=True)
class Saved:
    """The state that an audit saves for the next one."""

    level: str
    partitions: Mapping[TopicPartition, SavedPartition] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        partitions = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "verified_to": saved.verified_to,
                "replicas": [{"replica": n, **asdict(mark)} for n, mark in sorted(saved.replicas.items())],
            }
            for partition, saved in sorted(self.partitions.items())
        ]
        return {"format": FORMAT, "version": VERSION, "level": self.level, "partitions": partitions}

    @classmethod
    def from_json(cls, stored: Any) -> "Saved":
        """Parse a saved audit. Raises ValueError, KeyError, TypeError, AttributeError."""
        if stored["format"] != FORMAT:
            raise ValueError(f"format {str(stored['format'])[:40]!r} is not {FORMAT!r}")
        if stored["version"] != VERSION:
            raise ValueError(f"version {str(stored['version'])[:40]} is not {VERSION}")
        if stored["level"] not in LEVELS:
            raise ValueError(f"level {str(stored['level'])[:40]!r} is not one of {', '.join(LEVELS)}")
        return cls(stored["level"], dict(map(_partition, stored["partitions"])))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file durably and atomically."""
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def read_saved(path: Path) -> Saved:
    """Return the saved audit in a file. Raises BadSaved, OSError."""
    remedy = "save one again: audit with --save and without --since"
    saved: Saved = read_json(path, "saved audit", Saved.from_json, remedy)
    return saved


def read_json(path: Path, what: str, parse: Callable[[Any], Any], remedy: str) -> Any:
    """Return what `parse` makes of a JSON file, which errors call a `what`. Raises BadSaved, OSError."""
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise BadSaved(f"{path} is larger than {MAX_BYTES} bytes; {remedy}")
    try:
        return parse(json.loads(raw))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = str(error)[:200] if isinstance(error, ValueError) else "its values are of other kinds"
        if isinstance(error, KeyError):
            why = f"it has no {error}"
        elif isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            why = f"it is not JSON, or was cut ({error})"
        raise BadSaved(f"{path} is no {what} of this version: {why}; {remedy}") from None


def _partition(stored: Any) -> tuple[TopicPartition, SavedPartition]:
    replicas = {int(each["replica"]): Landmark.from_json(each) for each in stored["replicas"]}
    verified_to = int(stored["verified_to"])
    if verified_to < 0 or not replicas:
        raise ValueError(f"verified_to {verified_to} of {len(replicas)} replicas")
    return TopicPartition(str(stored["topic"]), int(stored["partition"])), SavedPartition(verified_to, replicas)


@dataclass
class TakenOver:
    """The offset from which each partition is compared, or the reason why it is compared as a whole."""

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    whole: dict[TopicPartition, str] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Return a line for each partition."""
        taken = [f"{p.directory_name}: compared from offset {start} on" for p, start in sorted(self.starts.items())]
        whole = [f"{p.directory_name}: compared as a whole: {why}" for p, why in sorted(self.whole.items())]
        return whole + taken


def take_over(saved: Saved, level: str, listed: FilesOfReplicas) -> TakenOver:
    """Return the part of `saved` that still holds for the replicas as they are now."""
    taken = TakenOver()
    for partition, replicas in listed.items():
        if partition.partition < 0:
            continue  # a directory that cannot be read at all
        before = saved.partitions.get(partition)
        if LEVELS.index(level) > LEVELS.index(saved.level):
            taken.whole[partition] = f"saved at level {saved.level}, which sees less than {level}"
        elif before is None:
            taken.whole[partition] = "the saved audit verified nothing of it"
        elif (why := _misfit(before, replicas)) is not None:
            taken.whole[partition] = why
        else:
            taken.starts[partition] = before.verified_to
    return taken


def _misfit(before: SavedPartition, replicas: Mapping[int, PartitionFiles]) -> str | None:
    """Say why the replicas are not the verified ones later on; None if they are."""
    for replica in sorted({*before.replicas, *replicas}):
        if replica not in replicas:
            return f"replica {replica} is gone"
        if replica not in before.replicas:
            return f"replica {replica} is new"
        now = landmark(replicas[replica], before.verified_to)
        why = now if isinstance(now, str) else before.replicas[replica].misfit(now, before.verified_to)
        if why is not None:
            return f"replica {replica} {why}"
    return None


def bounds_of(replicas: Iterable[Replica]) -> dict[TopicPartition, int]:
    """Return for each partition the offset below which every replica has data that it knows to be committed."""
    bounds: dict[TopicPartition, int] = {}
    for replica in replicas:
        bound = min(replica.mark, replica.log_end) if replica.readable else 0
        bounds[replica.key] = min(bound, bounds.get(replica.key, bound))
    return bounds


def landmarks(listed: FilesOfReplicas, bounds: Mapping[TopicPartition, int]) -> dict[TopicPartition, SavedPartition]:
    """Return the state to save for each partition if nothing wrong is found below `bounds`. Take it before replicas are
    compared, otherwise a change meanwhile would go unnoticed."""
    partitions = {}
    for partition, bound in bounds.items():
        replicas = {number: landmark(files, bound) for number, files in listed.get(partition, {}).items()}
        known = {number: mark for number, mark in replicas.items() if isinstance(mark, Landmark)}
        if bound > 0 and known and len(known) == len(replicas):
            partitions[partition] = SavedPartition(bound, known)
    return partitions


def saved_after(
    level: str,
    verified: Mapping[TopicPartition, SavedPartition],
    wrong: Collection[TopicPartition],
    before: Saved | None,
    taken: TakenOver,
) -> Saved:
    """Return what to save after an audit. A partition in `wrong`, which has findings, keeps its earlier state."""
    partitions = {partition: saved for partition, saved in verified.items() if partition not in wrong}
    for partition, start in taken.starts.items():
        if before is not None and (partition not in partitions or partitions[partition].verified_to < start):
            partitions[partition] = before.partitions[partition]
    weakest = level if before is None or not taken.starts else min(level, before.level, key=LEVELS.index)
    return Saved(weakest, partitions)
