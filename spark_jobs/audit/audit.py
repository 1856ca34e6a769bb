"""The audit: the order of its Spark jobs, and the result.

It takes two jobs if replicas agree: one describes the replicas, one checks and compares them. If they disagree, more
jobs read the entries, then the headers of the segments concerned, to find the first offset and the cause. A partition
that changed during the audit is read again.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from replog.topic import TopicPartition
from spark_jobs.audit.cleaned import Compare, Scope, compare_records
from spark_jobs.audit.compare import MAX_RESULTS, compare_batches, compare_blocks, compare_indexes, marks_frame
from spark_jobs.audit.epochs import Epochs, collect_epochs
from spark_jobs.audit.findings import (
    EPOCH_MISMATCH,
    VALUE_MISMATCH,
    AuditFinding,
    Interval,
    Mismatch,
    ReplicaFault,
    change_of,
    cleaned_ends,
    compared,
    deleted_below,
    not_looked_at,
    strangers,
    unsettled,
    verdict,
)
from spark_jobs.audit.landmarks import list_replicas
from spark_jobs.audit.resolve import resolve
from spark_jobs.audit.rows import fault_of, interval_of, mismatch_of, own_fault
from spark_jobs.audit.since import Saved, SavedPartition, TakenOver, bounds_of, landmarks, saved_after, take_over
from spark_jobs.replicas.checks import BATCHES, BLOCKS, DIGESTS, INDEXES, RECORDS, ChecksSource
from spark_jobs.replicas.counting import CountingStore
from spark_jobs.replicas.describe import Place, Replica
from spark_jobs.replicas.faults import EPOCH_CACHE_LIE, NO_DIGESTS, UNREADABLE, VANISHED
from spark_jobs.replicas.sources import register

ATTEMPTS = 4  # reads of a partition that changes meanwhile

Where = Mapping[int, Path | tuple[Path, ...]] | str
"""Replica id → its broker's log directory or directories; or the bootstrap servers of a running cluster."""

Range = tuple[str, int, int, int]  # topic, partition, first and last offset
Progress = Callable[[str], None]


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


@dataclass
class _Seen:
    """The observations of passes, in some partitions or in all."""

    faults: list[ReplicaFault] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)

    def add(self, other: "_Seen") -> None:
        self.faults += other.faults
        self.mismatches += other.mismatches
        self.intervals += other.intervals

    def keys(self) -> set[TopicPartition]:
        items: list[ReplicaFault | Mismatch | Interval] = [*self.faults, *self.mismatches, *self.intervals]
        return {item.key for item in items}

    def forget(self, starts: Mapping[Place, int]) -> None:
        """Drop faults below these offsets, which the replicas have deleted meanwhile."""
        self.faults = [f for f in self.faults if f.last >= starts.get((*f.key, f.replica), 0)]

    def without(self, keys: Collection[TopicPartition]) -> "_Seen":
        def kept(items: Iterable[Any]) -> list[Any]:
            return [item for item in items if item.key not in keys]

        return _Seen(kept(self.faults), kept(self.mismatches), kept(self.intervals))


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
    return _Run(spark, where, topics, level, progress, since, save).run()


@dataclass
class _Run:
    spark: SparkSession
    where: Where
    topics: Sequence[str]
    level: str
    progress: Progress
    since: Saved | None
    save: bool
    starts: dict[TopicPartition, int] = field(default_factory=dict)  # lower offsets need not be compared

    def __post_init__(self) -> None:
        self._options = {"topics": ",".join(self.topics)}
        directories = {}
        if isinstance(self.where, str):
            self._options["bootstrap.servers"] = self.where
        else:
            directories = {n: (paths,) if isinstance(paths, Path) else paths for n, paths in self.where.items()}
            self._options |= {f"replica.{n}": ",".join(map(str, paths)) for n, paths in directories.items()}
        self._result = Audit(self.level, directories, [], [], where=self.where)
        self._stage_began = time.monotonic()
        register(self.spark)
        self.spark.dataSource.register(ChecksSource)

    def run(self) -> Audit:
        result = self._result
        result.replicas = self._describe()
        taken, verified = self._take_over()
        seen = self._passes(result.replicas)
        moved: dict[TopicPartition, str] = {}
        for _ in range(ATTEMPTS - 1):
            if not (moved := self._moved(seen)):
                break
            seen = seen.without(moved)
            self.starts = {key: start for key, start in self.starts.items() if key not in moved}
            seen.add(self._passes([replica for replica in result.replicas if replica.key in moved]))
        else:
            moved = self._moved(seen)
        if not result.directories:  # a running cluster's
            result.directories = {n: (Path(f"broker-{n}"),) for n in sorted({r.replica for r in result.replicas})}
        apart = [finding for finding in strangers(result.replicas) if finding.key not in moved]
        unknown = {*moved, *(finding.key for finding in apart)}
        settled = seen.without(unknown)
        faults = list(dict.fromkeys(settled.faults))  # more than one pass may see them
        replicas = [replica for replica in result.replicas if replica.key not in unknown]
        result.findings = [
            *resolve(result.directories, replicas, faults, settled.mismatches, settled.intervals),
            *apart,
            *(unsettled(*key, why) for key, why in sorted(moved.items())),
        ]
        if result.findings:
            self.progress("reading the leader epochs of what differs")
            result.epochs = collect_epochs(self._load("replog_epochs"), result.findings)
            self._done("epochs")
        if self.save:
            result.saved = saved_after(self.level, verified, _wrong(result), self.since, taken)
        return result

    def _take_over(self) -> tuple[TakenOver, dict[TopicPartition, SavedPartition]]:
        """Return what need not be compared again, and what can be saved if nothing is found. Call it before replicas
        are compared."""
        if self.since is None and not self.save:
            return TakenOver(), {}
        source = ChecksSource(self._options)
        stores = [CountingStore(store) for store in source.stores()]
        try:
            listed = list_replicas(stores, source.topics())
            taken = take_over(self.since, self.level, listed) if self.since is not None else TakenOver()
            verified = landmarks(listed, bounds_of(self._result.replicas)) if self.save else {}
        finally:
            for store in stores:
                store.close()
        self._count("describe", sum(store.bytes_read for store in stores))
        self.starts = taken.starts
        self._result.taken = taken if self.since is not None else None
        return taken, verified

    # -- descriptions of replicas, and their changes

    def _describe(self) -> list[Replica]:
        """Return the replicas as they are now. Later reads are compared only below these high watermarks."""
        self.progress("describing the replicas")
        described = [Replica(**row.asDict()) for row in self._load("replog_replicas").collect()]
        self._count("describe", sum(replica.read for replica in described))
        self._done("describe")
        held = {replica.place for replica in described if replica.segments}
        # If a replica moved, the checkpoint of its old log directory may still name it.
        return [r for r in described if r.segments or not r.readable or r.place not in held]

    def _moved(self, seen: _Seen) -> dict[TopicPartition, str]:
        """Return the partitions whose change may explain what was seen there, and the change; update their
        descriptions."""
        suspects = seen.keys() | {replica.key for replica in self._result.replicas if replica.suspect}
        suspects |= {finding.key for finding in strangers(self._result.replicas)}
        if not suspects:
            return {}
        before = {r.place: r for r in self._result.replicas if r.key in suspects}
        described = self._describe()
        after = {r.place: r for r in described if r.key in suspects}
        deleted = deleted_below(before, after)
        seen.forget(deleted)
        unexplained = seen.keys()
        moved = {fault.key: fault.detail for fault in seen.faults if fault.kind == VANISHED}
        for place in sorted(before.keys() | after.keys()):
            key, change = TopicPartition(*place[:2]), change_of(before.get(place), after.get(place))
            if change is not None and (place not in deleted or key in unexplained):
                moved.setdefault(key, f"replica {place[2]}: {change}")
        kept = [replica for replica in self._result.replicas if replica.key not in moved]
        self._result.replicas = kept + [replica for replica in described if replica.key in moved]
        return moved

    # -- passes over the files

    def _passes(self, replicas: Sequence[Replica]) -> _Seen:
        held = [r for r in replicas if r.readable and r.partition >= 0]
        if not held:
            return _Seen()
        marks = [(r.replica, *r.key, r.high_watermark) for r in held if r.high_watermark is not None]
        self._marks = marks_frame(self.spark, marks)
        if self.level == "digest":
            return self._digests(held)
        if self.level == "index":
            return self._indexes(held)
        seen = self._blocks(held, crc=self.level == "deep")
        if self.level == "deep":
            seen.add(self._records(held))
        return seen

    def _records(self, held: list[Replica]) -> _Seen:
        """Compare the remaining records where replicas were cleaned on their own."""
        ends = cleaned_ends(held)
        cleaned = [r for r in held if ends.get(r.key, 0) > self.starts.get(r.key, 0)]
        if not cleaned:
            return _Seen()
        self.progress("comparing records where replicas were cleaned")
        scopes = []
        for r in cleaned:
            first, end = max(r.log_start, self.starts.get(r.key, 0)), ends[r.key]
            scopes.append(Scope(r.replica, *r.key, first, min(r.mark, r.log_end, end), end))
        seen = self._by_batch("records", cleaned, compare_records(self.spark, scopes), {"pass": RECORDS}, few=True)
        return replace(seen, mismatches=[replace(mismatch, of_records=True) for mismatch in seen.mismatches])

    def _blocks(self, held: list[Replica], *, crc: bool) -> _Seen:
        self.progress("reading every batch" if crc else "reading every header")
        option = str(crc).lower()
        rows = self._collect("batches", held, compare_blocks, {"pass": BLOCKS, "crc": option})
        seen = _Seen([own_fault(row) for row in rows if row["found"] is not None])
        ranges = [(row["topic"], row["partition"], row["first"], row["last"]) for row in rows if row["found"] is None]
        if ranges:
            self.progress("comparing batch by batch where blocks differ")
            seen.add(self._compare(held, ranges, crc=option))
        return seen

    def _indexes(self, held: list[Replica]) -> _Seen:
        self.progress("comparing the indexes")
        rows = self._collect("indexes", held, _points_and_blocks, {"pass": INDEXES}, few=True)
        return self._closer(held, rows, INDEXES)

    def _digests(self, held: list[Replica]) -> _Seen:
        if all(r.high_watermark is None for r in held):
            return _Seen()  # nothing is known to be committed, which is reported: there is nothing to compare
        self.progress("comparing digests")
        return self._closer(held, self._collect("digests", held, compare_indexes, {"pass": DIGESTS}), DIGESTS)

    def _closer(self, held: list[Replica], rows: list[Row], kind: str) -> _Seen:
        """Find out between which entries indexes disagree, then at which batch."""
        seen = _points(rows)
        ranges = [(row["topic"], row["partition"], row["first"], row["last"]) for row in rows if row["found"] is None]
        if ranges:
            self.progress("comparing entry by entry where indexes disagree")
            options = {"pass": kind, "entries": "true", "ranges": json.dumps(ranges)}
            closer = _points(self._collect("entries", held, compare_indexes, options))
            seen = _Seen(seen.faults + closer.faults, [], closer.intervals or seen.intervals)
        faults = [fault for fault in seen.faults if fault.kind not in (UNREADABLE, NO_DIGESTS, VANISHED)]
        short = [(*r.key, r.log_end, r.mark) for r in held if r.log_end < r.mark]
        # Replicas may share no entry next to a segment that cannot be read.
        unread = {fault.key for fault in seen.faults if fault.kind == UNREADABLE}
        blind = [place for place in ranges if place[:2] in unread]
        apart = [(i.topic, i.partition, min(i.first, i.last), i.last) for i in seen.intervals]
        if wanted := [*apart, *_places(faults, held), *short, *blind]:
            self.progress("reading the headers where indexes disagree, or something is wrong")
            seen.faults = [fault for fault in seen.faults if fault not in faults]
            seen.add(self._headers(held, wanted, seen.intervals))
        return seen

    def _headers(self, held: list[Replica], wanted: list[Range], intervals: list[Interval]) -> _Seen:
        """Compare ranges batch by batch; the whole partition if that shows a wrong epoch checkpoint, or a divergence
        outside of `intervals`, which may begin earlier."""
        seen = self._compare(held, wanted, crc="false")
        spread = {fault.key for fault in seen.faults if fault.kind == EPOCH_CACHE_LIE}
        spread |= {m.key for m in seen.mismatches if not any(_begins_in(m, interval) for interval in intervals)}
        ends = _ends(held)
        if whole := [(*key, 0, ends[key]) for key in sorted(spread) if (*key, 0, ends[key]) not in wanted]:
            seen = seen.without({TopicPartition(topic, partition) for topic, partition, *_ in whole})
            seen.add(self._compare(held, whole, crc="false"))
        return seen

    def _compare(self, held: list[Replica], ranges: list[Range], crc: str) -> _Seen:
        """Compare ranges batch by batch."""
        wider = [(topic, partition, first, last + 1) for topic, partition, first, last in ranges]  # they agree there
        options = {"pass": BATCHES, "ranges": json.dumps(wider), "crc": crc}
        return self._by_batch("headers" if crc == "false" else "differences", held, compare_batches, options)

    def _by_batch(
        self, stage: str, held: list[Replica], compare: Compare, options: dict[str, str], **how: bool
    ) -> _Seen:
        rows = self._collect(stage, held, compare, options, **how)
        mismatches = [row for row in rows if row["class"] in (VALUE_MISMATCH, EPOCH_MISMATCH)]
        faults = [fault_of(row) for row in rows if row["class"] not in (VALUE_MISMATCH, EPOCH_MISMATCH)]
        return _Seen(faults, [mismatch_of(row) for row in mismatches])

    def _collect(
        self, stage: str, held: list[Replica], compare: Compare, options: dict[str, str], *, few: bool = False
    ) -> list[Row]:
        """Run one pass; its bytes and seconds count for `stage`. `few`: rows are few, and are kept to be used twice."""
        bounds = [(*r.key, r.replica, r.high_watermark, r.log_end, r.cleaned_to) for r in held]
        starts = json.dumps([(*key, start) for key, start in self.starts.items()])
        rows = self._load("replog_checks", bounds=json.dumps(bounds), starts=starts, **options)
        counted = Observation()
        rows = rows.observe(counted, F.sum("read").alias("bytes"))
        if few:
            rows = rows.persist()
        results = compare(rows, self._marks).collect()
        rows.unpersist()
        self._result.complete &= len(results) < MAX_RESULTS
        self._count(stage, counted.get["bytes"] or 0)
        self._done(stage)
        return results

    def _count(self, stage: str, read: int) -> None:
        self._result.bytes_read[stage] = self._result.bytes_read.get(stage, 0) + read

    def _load(self, source: str, **options: str) -> DataFrame:
        return self.spark.read.format(source).options(**self._options, **options).load()

    def _done(self, stage: str) -> None:
        now = time.monotonic()
        self._result.seconds[stage] = round(self._result.seconds.get(stage, 0) + now - self._stage_began, 2)
        self._stage_began = now


def _wrong(result: Audit) -> set[TopicPartition]:
    """Return the partitions that are not known to be right."""
    concerned: list[AuditFinding | Replica] = [*result.findings, *([] if result.complete else result.replicas)]
    return {item.key for item in concerned}


def _places(faults: Iterable[ReplicaFault], held: Iterable[Replica]) -> list[Range]:
    """Return the offsets that faults may concern, whatever a damaged header names; all offsets if epochs are wrong."""
    ends = _ends(held)
    return [
        (*fault.key, 0, ends[fault.key])
        if fault.kind == EPOCH_CACHE_LIE
        else (*fault.key, fault.segment, max(fault.segment, min(fault.last, ends[fault.key])))
        for fault in faults
    ]


def _ends(held: Iterable[Replica]) -> dict[TopicPartition, int]:
    """Return the greatest log end of each partition."""
    ends: dict[TopicPartition, int] = defaultdict(int)
    for replica in held:
        ends[replica.key] = max(ends[replica.key], replica.log_end)
    return ends


def _begins_in(mismatch: Mismatch, interval: Interval) -> bool:
    return mismatch.key == interval.key and min(interval.first, interval.last) <= mismatch.first <= interval.last


def _points(rows: list[Row]) -> _Seen:
    own = [own_fault(row) for row in rows if row["found"] is not None]
    return _Seen(own, [], [interval_of(row) for row in rows if row["found"] is None and row["kind"] is not None])


def _points_and_blocks(rows: DataFrame, marks: DataFrame) -> DataFrame:
    """Compare the rows of one pass over the indexes: points by `compare_indexes`, blocks by `compare_blocks`."""
    blocks = compare_blocks(rows.where(F.col("number").isNotNull()), marks).drop("found")
    return compare_indexes(rows.where(F.col("number").isNull()), marks).unionByName(blocks, allowMissingColumns=True)
