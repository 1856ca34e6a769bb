"""Saved audits: how far replicas were verified, and landmarks which show that they are still the same replicas.

An audit with a saved one compares each partition from there on. If a landmark does not fit any longer, it compares the
whole partition, and says why. This needs no Spark.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replog.log.files.replacing import write_atomically
from replog.topic import TopicPartition
from spark_jobs.audit.findings import LEVELS
from spark_jobs.audit.landmarks import FilesOfReplicas, Landmark, landmark
from spark_jobs.replicas.describe import Replica
from spark_jobs.replicas.files import PartitionFiles

FORMAT, VERSION = "replog saved audit", 1
MAX_BYTES = 256 << 20


class BadSaved(Exception):
    """A file is not one that an audit saved, or is of another version. The message names the file and the remedy."""


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
                "replicas": [{"replica": n, **mark.as_json()} for n, mark in sorted(saved.replicas.items())],
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
        raise BadSaved(f"{path} is no {what} of this version: {_flaw(error)}; {remedy}") from None


def _flaw(error: Exception) -> str:
    """Say why a JSON file could not be read."""
    match error:
        case json.JSONDecodeError() | UnicodeDecodeError():
            return f"it is not JSON, or was cut ({error})"
        case KeyError():
            return f"it has no {error}"
        case ValueError():
            return str(error)[:200]
        case _:
            return "its values are of other kinds"


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
