"""The audit: the order of its Spark jobs, and the result.

It takes two jobs if replicas agree: one describes the replicas, one checks and compares them. If they disagree, more
jobs read the entries, then the headers of the segments concerned, to find the first offset and the cause. A partition
that changed during the audit is read again.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from replog.topic import TopicPartition
from spark_jobs.audit.findings import (
    AuditFinding,
    Seen,
    change_of,
    compared,
    deleted_below,
    not_looked_at,
    strangers,
    unsettled,
    verdict,
)
from spark_jobs.audit.passes import Epochs, Progress, Reader, Starts, look, read_epochs
from spark_jobs.audit.resolve import resolve
from spark_jobs.audit.since import Saved, TakenOver, bounds_of, landmarks, list_replicas, saved_after, take_over
from spark_jobs.replicas.checks import ChecksSource
from spark_jobs.replicas.describe import Replica
from spark_jobs.replicas.faults import VANISHED

ATTEMPTS = 4  # reads of a partition that changes meanwhile

Where = Mapping[int, Path | tuple[Path, ...]] | str
"""Replica id → its broker's log directory or directories; or the bootstrap servers of a running cluster."""


@dataclass
class Audit:
    """The result of an audit."""

    level: str
    directories: dict[int, tuple[Path, ...]]
    replicas: list[Replica]
    findings: list[AuditFinding]
    complete: bool = True  # False: not everything is listed
    seconds: dict[str, float] = field(default_factory=dict)
    bytes_read: dict[str, int] = field(default_factory=dict)  # bytes of segments' files; keys: stages
    where: Where = ""
    taken: TakenOver | None = None  # the part of the saved audit that still holds
    saved: Saved | None = None  # the state for the next audit, if it was asked for
    epochs: Epochs = field(default_factory=dict)  # only some partitions with findings

    @property
    def compared(self) -> int:
        """The number of partitions with two replicas or more in which this level compares something."""
        return compared(self.level, self.replicas)

    @property
    def not_looked_at(self) -> str:
        """Says what this level does not look at; empty if it looks at everything."""
        return not_looked_at(self.level, live=isinstance(self.where, str))

    @property
    def verdict(self) -> str:
        return verdict(self.findings, self.compared, complete=self.complete)


def audit(
    spark: SparkSession,
    where: Where,
    topics: Sequence[str] = (),
    level: str = "index",
    progress: Progress = lambda stage: None,
    since: Saved | None = None,
    *,
    save: bool = False,
) -> Audit:
    """Compare the replicas that are at `where`; see the command for the rules. With `since`, only what is new.

    With `save` the result has `saved`, from which the next audit can continue.
    """
    options, directories = {"topics": ",".join(topics)}, {}
    if isinstance(where, str):
        options["bootstrap.servers"] = where
    else:
        directories = {n: (paths,) if isinstance(paths, Path) else paths for n, paths in where.items()}
        options |= {f"replica.{n}": ",".join(map(str, paths)) for n, paths in directories.items()}
    reader = Reader(spark, options, progress)
    replicas = reader.describe()
    taken, verified = TakenOver(), {}
    if since is not None or save:
        source = ChecksSource(reader.options)
        with contextlib.ExitStack() as opened:
            stores = source.stores()
            for store in stores:
                opened.callback(store.close)
            listed = list_replicas(stores, source.topics())
        reader.done("describe")
        taken = take_over(since, level, listed) if since is not None else taken
        verified = landmarks(listed, bounds_of(replicas)) if save else {}
    replicas, seen, moved = _settled(reader, level, replicas, taken.starts)
    if not directories:  # a running cluster's
        directories = {n: (Path(f"broker-{n}"),) for n in sorted({r.replica for r in replicas})}
    apart = [finding for finding in strangers(replicas) if finding.key not in moved]
    unknown = {*moved, *(finding.key for finding in apart)}
    findings = [
        *resolve(directories, [r for r in replicas if r.key not in unknown], seen.without(unknown)),
        *apart,
        *(unsettled(*key, why) for key, why in sorted(moved.items())),
    ]
    epochs = read_epochs(reader, findings) if findings else {}
    concerned: list[AuditFinding | Replica] = [*findings, *([] if reader.complete else replicas)]
    wrong = {item.key for item in concerned}
    return Audit(
        level=level,
        directories=directories,
        replicas=replicas,
        findings=findings,
        complete=reader.complete,
        seconds=reader.seconds,
        bytes_read=reader.bytes_read,
        where=where,
        taken=taken if since is not None else None,
        saved=saved_after(level, verified, wrong, since, taken) if save else None,
        epochs=epochs,
    )


def _settled(
    reader: Reader, level: str, replicas: list[Replica], starts: Starts
) -> tuple[list[Replica], Seen, dict[TopicPartition, str]]:
    """Look at the replicas, and again at those that change meanwhile. Return their last descriptions, what was seen,
    and the partitions that changed each time, with the change."""
    seen = look(reader, level, replicas, starts)
    for attempt in range(ATTEMPTS):
        replicas, seen, moved = _moved(reader, replicas, seen)
        if not moved or attempt == ATTEMPTS - 1:
            break
        starts = {key: start for key, start in starts.items() if key not in moved}
        again = look(reader, level, [replica for replica in replicas if replica.key in moved], starts)
        seen = seen.without(moved) + again
    return replicas, replace(seen, faults=list(dict.fromkeys(seen.faults))), moved  # two passes may see one fault


def _moved(
    reader: Reader, replicas: list[Replica], seen: Seen
) -> tuple[list[Replica], Seen, dict[TopicPartition, str]]:
    """Return the descriptions of the replicas, what was seen and is still there, and the partitions whose change may
    explain it, with the change."""
    suspects = seen.keys() | {replica.key for replica in replicas if replica.suspect}
    suspects |= {finding.key for finding in strangers(replicas)}
    if not suspects:
        return replicas, seen, {}
    before = {r.place: r for r in replicas if r.key in suspects}
    described = reader.describe()
    after = {r.place: r for r in described if r.key in suspects}
    deleted = deleted_below(before, after)
    seen = replace(seen, faults=[f for f in seen.faults if f.last >= deleted.get((*f.key, f.replica), 0)])
    unexplained = seen.keys()
    moved = {fault.key: fault.detail for fault in seen.faults if fault.kind == VANISHED}
    for place in sorted(before.keys() | after.keys()):
        key, change = TopicPartition(*place[:2]), change_of(before.get(place), after.get(place))
        if change is not None and (place not in deleted or key in unexplained):
            moved.setdefault(key, f"replica {place[2]}: {change}")
    replicas = [r for r in replicas if r.key not in moved] + [r for r in described if r.key in moved]
    return replicas, seen, moved
