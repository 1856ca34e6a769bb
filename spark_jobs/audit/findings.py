"""The results of an audit: classes, observations, findings, the verdict. Pure, without Spark."""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, get_args

from replog.log.files.names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from replog.topic import TopicPartition
from spark_jobs.replicas.describe import Place, Replica
from spark_jobs.replicas.faults import BIT_ROT, EPOCH_CACHE_LIE, GAP, INDEX_LIE, NO_DIGESTS, REPEATED, UNREADABLE

Level = Literal["digest", "index", "batches", "deep"]
LEVELS: tuple[Level, ...] = get_args(Level)  # each sees all that the levels before it see

_PRODUCERS = "transaction indexes and producer snapshots"
_NOT_LOOKED_AT = {
    "digest": f"batches behind the digest indexes, other indexes, {_PRODUCERS}",
    "index": f"payload, headers that no index points at, {_PRODUCERS}",
    "batches": f"payload, {_PRODUCERS}",
}

VALUE_MISMATCH = "VALUE_MISMATCH"
EPOCH_MISMATCH = "EPOCH_MISMATCH"
COMMITTED_LOSS = "COMMITTED_LOSS"
OTHER_TOPIC = "OTHER_TOPIC"

CONSISTENT, DIVERGED, INCONCLUSIVE = "CONSISTENT", "DIVERGED", "INCONCLUSIVE"
EXIT_CODES = {CONSISTENT: 0, DIVERGED: 1, INCONCLUSIVE: 3}

MEANINGS = {
    COMMITTED_LOSS: "A replica lacks committed offsets that another one has.",
    VALUE_MISMATCH: "Replicas hold different bytes for the same committed offsets.",
    EPOCH_MISMATCH: "Replicas hold the same bytes under different leader epochs.",
    BIT_ROT: "Stored bytes changed after they were written: they no longer match their checksum, or are no batch.",
    INDEX_LIE: "An index says something of its own log that is not so.",
    EPOCH_CACHE_LIE: "A leader epoch checkpoint disagrees with the batches of its own log.",
    GAP: "Offsets are missing, and no other replica can fill them; or they come twice, or out of order.",
    OTHER_TOPIC: "Replicas of one partition belong, by their topic ids, to different topics of one name.",
    UNREADABLE: "Something could not be read, so nothing can be said of it.",
}
REPORTED_AS = {REPEATED: GAP, NO_DIGESTS: UNREADABLE}
"""Classes of faults that have no class of findings of their own."""

_COPY = (
    "Let a replica that no finding blames lead the partition. Then stop broker {replica}, move {directory} aside and "
    "start the broker: it copies the partition from the leader again. Keep what you moved until an audit is "
    "CONSISTENT, and do not elect this broker before it is back in the ISR."
)
REMEDIES = {
    COMMITTED_LOSS: _COPY,
    VALUE_MISMATCH: _COPY,
    EPOCH_MISMATCH: _COPY,
    BIT_ROT: "Check the disk of broker {replica} (SMART, kernel log). " + _COPY,
    GAP: "If another copy or a backup has these offsets, restore it; if not they are lost: seek consumers past them.",
    REPEATED: _COPY,
    EPOCH_CACHE_LIE: "Stop broker {replica}, move {directory}/leader-epoch-checkpoint aside and start the broker: the "
    "checkpoint is rebuilt from the batches. On Apache Kafka, move the whole of {directory} aside instead: the broker "
    "copies the partition again.",
    # A broker of replog that finds no index recovers the segment, and would cut it at a hole.
    INDEX_LIE: _COPY
    + " On Apache Kafka, or if it is the only replica and no offsets are missing, move only {file} aside "
    "instead: a start rebuilds indexes from the log.",
    TRANSACTION_INDEX_SUFFIX: _COPY
    + " If it is the only replica and no offsets are missing, move the .index beside {file} aside instead: a start "
    "then makes both again.",
    SNAPSHOT_SUFFIX: "Stop broker {replica}, move {file} aside and start the broker: what it knows of producers then "
    "comes from an older snapshot and the batches.",
    OTHER_TOPIC: "Stop the broker, move its directory of this partition aside and start the broker: it copies the "
    "partition from the leader. Keep what you moved until you know whose it is: another topic's data under a wrong "
    "name, or what is left of a topic that was made again while the broker was down.",
    UNREADABLE: "Make {file} readable (permissions, mount, disk), then audit again.",
    NO_DIGESTS: "Audit with --level index, or deep: these need no digest indexes, which brokers of Apache Kafka do not "
    "write.",
}
UNDECIDED = (
    "The replicas contradict each other and nothing tells which is right. Keep a copy of each of them, compare with a "
    "backup or with the producer, then let the wrong replica copy the partition again."
)


_Item = TypeVar("_Item", bound="_OfPartition")


class _OfPartition:
    """Something that belongs to one partition. Partition -1 of no topic stands for a whole log directory."""

    topic: str
    partition: int

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class Evidence:
    """An observation in one replica, with its place."""

    replica: int
    file: str
    position: int | None
    seen: str
    epoch: int | None = None


@dataclass(frozen=True)
class ReplicaFault(_OfPartition):
    """A fault that one replica's files show by themselves."""

    kind: str
    topic: str
    partition: int
    replica: int
    segment: int
    position: int | None
    first: int
    last: int
    epoch: int
    file: str
    detail: str
    count: int = 1


@dataclass(frozen=True)
class View:
    """One replica's batch at an offset where replicas disagree."""

    replica: int
    last_offset: int
    epoch: int
    crc: int
    size: int
    segment: int
    position: int


@dataclass(frozen=True)
class Mismatch(_OfPartition):
    """A run of batches on which two replicas or more disagree. `views` show its first batch."""

    kind: str
    topic: str
    partition: int
    first: int
    last: int
    count: int
    views: tuple[View, ...]
    pairs: tuple[tuple[int, int], ...]  # replicas that disagree
    of_records: bool = False  # True: replicas were cleaned, records were compared, and `crc` is a hash of a record


@dataclass(frozen=True)
class Interval(_OfPartition):
    """Offsets over which the indexes of two replicas disagree."""

    topic: str
    partition: int
    kind: str
    first: int
    last: int
    replicas: tuple[int, int]
    values: tuple[int, int]


@dataclass(frozen=True)
class AuditFinding(_OfPartition):
    """A cause of faults or disagreements, reported once."""

    kind: str
    topic: str
    partition: int
    replicas: tuple[int, ...]
    first: int | None
    last: int | None
    wrong: int | None  # the replica most likely at fault
    why: str
    remedy: str
    evidence: tuple[Evidence, ...] = ()
    batches: int = 1

    @property
    def epochs(self) -> tuple[int, ...]:
        """The leader epochs that were seen in the first batch."""
        return tuple(sorted({seen.epoch for seen in self.evidence if seen.epoch is not None and seen.epoch >= 0}))


@dataclass
class Seen:
    """Faults and disagreements that passes over the files saw, in some partitions or in all."""

    faults: list[ReplicaFault] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(self.faults + other.faults, self.mismatches + other.mismatches, self.intervals + other.intervals)

    def keys(self) -> set[TopicPartition]:
        return {item.key for items in (self.faults, self.mismatches, self.intervals) for item in items}

    def without(self, keys: Collection[TopicPartition]) -> "Seen":
        def kept(items: Iterable[_Item]) -> list[_Item]:
            return [item for item in items if item.key not in keys]

        return Seen(kept(self.faults), kept(self.mismatches), kept(self.intervals))


def unsettled(topic: str, partition: int, why: str) -> AuditFinding:
    """Return the finding for a partition that changed each time it was read."""
    changing = f"the partition changed while it was audited, at each attempt: {why}"
    remedy = "Audit it again when no leader is elected and retention has nothing to delete, or audit stopped brokers."
    return AuditFinding(UNREADABLE, topic, partition, (), None, None, None, changing, remedy)


def strangers(replicas: Iterable[Replica]) -> list[AuditFinding]:
    """Return findings for partitions whose replicas belong to different topics of one name, which are not compared. A
    minority is wrong."""
    held: dict[TopicPartition, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for replica in replicas:
        if replica.topic_id is not None:
            held[replica.key][replica.topic_id].append(replica.replica)
    findings = []
    for key, topics in sorted(held.items()):
        first, *others = sorted(topics.values(), key=len, reverse=True)
        if not others:
            continue
        owners = "; ".join(f"{replica_names(numbers)} of topic id {name}" for name, numbers in topics.items())
        why = f"the replicas belong to different topics of this name: {owners}"
        concerned = tuple(sorted(itertools.chain(first, *others)))
        outvoted = sorted(itertools.chain(*others)) if len(first) > len(others[0]) else [None]
        findings += [
            AuditFinding(OTHER_TOPIC, *key, concerned, None, None, wrong, why, REMEDIES[OTHER_TOPIC])
            for wrong in outvoted
        ]
    return findings


def replica_names(replicas: Iterable[int]) -> str:
    """Return `replica 1`, or `replicas 1 and 2`."""
    names = [str(replica) for replica in sorted(replicas)]
    if len(names) == 1:
        return f"replica {names[0]}"
    return f"replicas {', '.join(names[:-1])} and {names[-1]}"


def change_of(before: Replica | None, after: Replica | None) -> str | None:
    """Say how a replica has changed, if that may mislead an audit; otherwise None."""
    if before is None or after is None:
        return "it was removed" if after is None else "it was added"
    if (after.fault, after.detail) != (before.fault, before.detail):  # an unreadable one has no bounds either
        return f"it was {before.detail or 'in order'}, then {after.detail or 'in order'}"
    if after.topic_id != before.topic_id:
        return f"it belonged to topic id {before.topic_id}, then to {after.topic_id}"
    if after.log_start != before.log_start:
        return f"its log start moved from {before.log_start} to {after.log_start}"
    if after.log_end < before.log_end:
        return f"its log was cut from {before.log_end} to {after.log_end}"
    if after.leader_epoch != before.leader_epoch:
        return f"its leader epoch moved from {before.leader_epoch} to {after.leader_epoch}"
    if after.cleaned_to != before.cleaned_to:
        return f"it was cleaned up to {after.cleaned_to}"
    return None


def deleted_below(before: Mapping[Place, Replica], after: Mapping[Place, Replica]) -> dict[Place, int]:
    """Return the new log starts in partitions where only retention has changed replicas."""
    deleted, otherwise = {}, set()
    for place in before.keys() | after.keys():
        was, now = before.get(place), after.get(place)
        if change_of(was, now) is None:
            continue
        if was and now and now.log_start > was.log_start and not change_of(replace(was, log_start=now.log_start), now):
            deleted[place] = now.log_start
        else:
            otherwise.add(place[:2])
    return {place: start for place, start in deleted.items() if place[:2] not in otherwise}


def cleaned_ends(replicas: Iterable[Replica]) -> dict[TopicPartition, int]:
    """Return the offset below which replicas of a partition were cleaned, each on its own (CL-10), if any was."""
    ends: dict[TopicPartition, int] = {}
    for replica in replicas:
        if replica.cleaned_to > ends.get(replica.key, 0):
            ends[replica.key] = replica.cleaned_to
    return ends


def compared(level: str, replicas: Iterable[Replica]) -> int:
    """Count the partitions with two replicas or more in which the level compares something."""
    held: dict[TopicPartition, list[Replica]] = defaultdict(list)
    for replica in replicas:
        if replica.partition >= 0:
            held[replica.key].append(replica)
    ends = {} if level == "deep" else cleaned_ends(itertools.chain(*held.values()))
    return sum(len(held[key]) > 1 and not 0 < max(r.mark for r in held[key]) <= ends.get(key, 0) for key in held)


def not_looked_at(level: str, *, live: bool) -> str:
    """Say what was not looked at; empty if nothing. `live`: running brokers were asked, which do not show all files."""
    return _NOT_LOOKED_AT.get(level, _PRODUCERS if live else "")


def notes_of_cleaned(level: str, replicas: Iterable[Replica]) -> list[str]:
    """Say for each partition, in a line, what the level compares in the cleaned part."""
    how = "compared there record by record"
    if level != "deep":
        how = f"level {level} compares nothing there: audit at level deep"
    return [
        f"{partition.directory_name}: below offset {end} replicas were cleaned on their own; {how}"
        for partition, end in sorted(cleaned_ends(replicas).items())
    ]


def verdict(findings: Iterable[AuditFinding], compared: int, *, complete: bool = True) -> str:
    """Return the verdict. `compared` counts partitions; `complete` is False if not everything was listed."""
    kinds = {finding.kind for finding in findings}
    if kinds - {UNREADABLE}:
        return DIVERGED
    return CONSISTENT if compared and complete and not kinds else INCONCLUSIVE
