"""The passes over the replicas' files: the Spark jobs of each level, and the rows that they bring to the driver."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from replog.topic import TopicPartition
from spark_jobs.audit.compare import (
    MAX_RESULTS,
    Compare,
    Scope,
    compare_batches,
    compare_blocks,
    compare_indexes,
    compare_records,
    marks_frame,
)
from spark_jobs.audit.findings import (
    EPOCH_MISMATCH,
    VALUE_MISMATCH,
    AuditFinding,
    Interval,
    Mismatch,
    ReplicaFault,
    Seen,
    View,
    cleaned_ends,
)
from spark_jobs.replicas.checks import BATCHES, BLOCKS, DIGESTS, INDEXES, RECORDS, ChecksSource
from spark_jobs.replicas.describe import Place, Replica
from spark_jobs.replicas.faults import EPOCH_CACHE_LIE, NO_DIGESTS, UNREADABLE, VANISHED
from spark_jobs.replicas.sources import register

Range = tuple[str, int, int, int]  # topic, partition, first and last offset
Starts = Mapping[TopicPartition, int]  # lower offsets need not be compared
Progress = Callable[[str], None]
Epochs = dict[Place, tuple[tuple[int, int], ...]]
"""Of a replica: each leader epoch and its first offset, in order."""

PLOTTED = 100  # partitions of which epochs are read
MAX_EPOCHS = 20_000  # their entries that are brought to the driver, in all


@dataclass
class Reader:
    """Reads tables of the replicas that `options` name, and counts seconds and bytes by stage."""

    spark: SparkSession
    options: dict[str, str]
    progress: Progress
    complete: bool = True  # False: a table had more rows than are brought to the driver
    seconds: dict[str, float] = field(default_factory=dict)
    bytes_read: dict[str, int] = field(default_factory=dict)  # bytes of segments' files

    def __post_init__(self) -> None:
        self._stage_began = time.monotonic()
        register(self.spark)
        self.spark.dataSource.register(ChecksSource)

    def load(self, source: str, **options: str) -> DataFrame:
        return self.spark.read.format(source).options(**self.options, **options).load()

    def done(self, stage: str, read: int | None = None) -> None:
        now = time.monotonic()
        self.seconds[stage] = round(self.seconds.get(stage, 0) + now - self._stage_began, 2)
        if read is not None:
            self.bytes_read[stage] = self.bytes_read.get(stage, 0) + read
        self._stage_began = now

    def describe(self) -> list[Replica]:
        """Return the replicas as they are now. Later reads are compared only below these high watermarks."""
        self.progress("describing the replicas")
        described = [Replica(**row.asDict()) for row in self.load("replog_replicas").collect()]
        self.done("describe", sum(replica.read for replica in described))
        held = {replica.place for replica in described if replica.segments}
        # If a replica moved, the checkpoint of its old log directory may still name it.
        return [r for r in described if r.segments or not r.readable or r.place not in held]


def read_epochs(reader: Reader, findings: Iterable[AuditFinding]) -> Epochs:
    """Return all epochs of each replica of the first partitions with findings, as long as `MAX_EPOCHS` allows."""
    reader.progress("reading the leader epochs of what differs")
    names = list(dict.fromkeys(finding.key.directory_name for finding in findings))[:PLOTTED]
    rows = (
        reader.load("replog_epochs")
        .where(F.concat_ws("-", "topic", "partition").isin(names) & F.col("leader_epoch").isNotNull())
        .orderBy("topic", "partition", "replica", "start_offset")
        .select("topic", "partition", "replica", "leader_epoch", "start_offset")
        .limit(MAX_EPOCHS)
        .collect()
    )
    reader.done("epochs")
    entries: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for topic, partition, replica, epoch, start in rows:
        entries[topic, partition, replica].append((epoch, start))
    if len(rows) == MAX_EPOCHS:
        entries.popitem()  # otherwise the last replica may miss entries
    return {place: tuple(epochs) for place, epochs in entries.items()}


def look(reader: Reader, level: str, replicas: Sequence[Replica], starts: Starts) -> Seen:
    """Return what the level sees of these replicas."""
    held = _Held(reader, [r for r in replicas if r.readable and r.partition >= 0], starts)
    if not held.replicas:
        return Seen()
    match level:
        case "digest":
            return _digests(held)
        case "index":
            return _indexes(held)
        case "batches":
            return _blocks(held, crc=False)
    return _blocks(held, crc=True) + _records(held)


@dataclass(frozen=True)
class _Held:
    """The replicas that can be compared."""

    reader: Reader
    replicas: list[Replica]
    starts: Starts

    @cached_property
    def marks(self) -> DataFrame:
        marks = [(r.replica, *r.key, r.high_watermark) for r in self.replicas if r.high_watermark is not None]
        return marks_frame(self.reader.spark, marks)

    @cached_property
    def ends(self) -> dict[TopicPartition, int]:
        """The greatest log end of each partition."""
        ends: dict[TopicPartition, int] = defaultdict(int)
        for replica in self.replicas:
            ends[replica.key] = max(ends[replica.key], replica.log_end)
        return ends

    def collect(self, stage: str, compare: Compare, options: dict[str, str], *, few: bool = False) -> list[Row]:
        """Run one pass; its bytes and seconds count for `stage`. `few`: rows are few, and are kept to be used twice."""
        bounds = [(*r.key, r.replica, r.high_watermark, r.log_end, r.cleaned_to) for r in self.replicas]
        starts = json.dumps([(*key, start) for key, start in self.starts.items()])
        counted = Observation()
        rows = self.reader.load("replog_checks", bounds=json.dumps(bounds), starts=starts, **options)
        rows = rows.observe(counted, F.sum("read").alias("bytes"))
        if few:
            rows = rows.persist()
        results = compare(rows, self.marks).collect()
        rows.unpersist()
        self.reader.complete &= len(results) < MAX_RESULTS
        self.reader.done(stage, counted.get["bytes"] or 0)
        return results

    def batches(self, ranges: Iterable[Range], crc: str) -> Seen:
        """Compare ranges batch by batch."""
        wider = [(topic, partition, first, last + 1) for topic, partition, first, last in ranges]  # they agree there
        options = {"pass": BATCHES, "ranges": json.dumps(wider), "crc": crc}
        return _seen(self.collect("headers" if crc == "false" else "differences", compare_batches, options))


def _blocks(held: _Held, *, crc: bool) -> Seen:
    held.reader.progress("reading every batch" if crc else "reading every header")
    option = str(crc).lower()
    rows = held.collect("batches", compare_blocks, {"pass": BLOCKS, "crc": option})
    seen = Seen([ReplicaFault(*row["found"]) for row in rows if row["found"] is not None])
    if ranges := _differing(rows):
        held.reader.progress("comparing batch by batch where blocks differ")
        seen += held.batches(ranges, option)
    return seen


def _records(held: _Held) -> Seen:
    """Compare the remaining records where replicas were cleaned on their own."""
    ends, starts = cleaned_ends(held.replicas), held.starts
    cleaned = [r for r in held.replicas if ends.get(r.key, 0) > starts.get(r.key, 0)]
    if not cleaned:
        return Seen()
    held.reader.progress("comparing records where replicas were cleaned")
    scopes = []
    for r in cleaned:
        first, end = max(r.log_start, starts.get(r.key, 0)), ends[r.key]
        scopes.append(Scope(r.replica, *r.key, first, min(r.mark, r.log_end, end), end))
    compare = compare_records(held.reader.spark, scopes)
    seen = _seen(replace(held, replicas=cleaned).collect("records", compare, {"pass": RECORDS}, few=True))
    return replace(seen, mismatches=[replace(mismatch, of_records=True) for mismatch in seen.mismatches])


def _indexes(held: _Held) -> Seen:
    held.reader.progress("comparing the indexes")
    return _closer(held, held.collect("indexes", _points_and_blocks, {"pass": INDEXES}, few=True), INDEXES)


def _points_and_blocks(rows: DataFrame, marks: DataFrame) -> DataFrame:
    """Compare the rows of one pass over the indexes: points by `compare_indexes`, blocks by `compare_blocks`."""
    blocks = compare_blocks(rows.where(F.col("number").isNotNull()), marks).drop("found")
    return compare_indexes(rows.where(F.col("number").isNull()), marks).unionByName(blocks, allowMissingColumns=True)


def _digests(held: _Held) -> Seen:
    if all(r.high_watermark is None for r in held.replicas):
        return Seen()  # nothing is known to be committed, which is reported: there is nothing to compare
    held.reader.progress("comparing digests")
    return _closer(held, held.collect("digests", compare_indexes, {"pass": DIGESTS}), DIGESTS)


def _closer(held: _Held, rows: list[Row], kind: str) -> Seen:
    """Find out between which entries indexes disagree, then at which batch."""
    seen = _points(rows)
    if ranges := _differing(rows):
        held.reader.progress("comparing entry by entry where indexes disagree")
        options = {"pass": kind, "entries": "true", "ranges": json.dumps(ranges)}
        closer = _points(held.collect("entries", compare_indexes, options))
        seen = Seen(seen.faults + closer.faults, [], closer.intervals or seen.intervals)
    faults = [fault for fault in seen.faults if fault.kind not in (UNREADABLE, NO_DIGESTS, VANISHED)]
    short = [(*r.key, r.log_end, r.mark) for r in held.replicas if r.log_end < r.mark]
    # Replicas may share no entry next to a segment that cannot be read.
    unread = {fault.key for fault in seen.faults if fault.kind == UNREADABLE}
    blind = [place for place in ranges if place[:2] in unread]
    apart = [(*i.key, min(i.first, i.last), i.last) for i in seen.intervals]
    wanted = [*apart, *(_concerned(fault, held.ends[fault.key]) for fault in faults), *short, *blind]
    if not wanted:
        return seen
    held.reader.progress("reading the headers where indexes disagree, or something is wrong")
    others = [fault for fault in seen.faults if fault not in faults]
    headers = held.batches(wanted, "false")
    # The whole partition is compared if an epoch checkpoint is wrong, or a divergence may begin before what was read.
    spread = {fault.key for fault in headers.faults if fault.kind == EPOCH_CACHE_LIE}
    spread |= {m.key for m in headers.mismatches if not any(_begins_in(m, interval) for interval in seen.intervals)}
    if whole := [place for key in sorted(spread) if (place := (*key, 0, held.ends[key])) not in wanted]:
        headers = headers.without({TopicPartition(*place[:2]) for place in whole}) + held.batches(whole, "false")
    return Seen(others, [], seen.intervals) + headers


def _concerned(fault: ReplicaFault, end: int) -> Range:
    """Return the offsets that a fault may concern, whatever a damaged header names; all if epochs are wrong."""
    if fault.kind == EPOCH_CACHE_LIE:
        return *fault.key, 0, end
    return *fault.key, fault.segment, max(fault.segment, min(fault.last, end))


def _begins_in(mismatch: Mismatch, interval: Interval) -> bool:
    return mismatch.key == interval.key and min(interval.first, interval.last) <= mismatch.first <= interval.last


# -- rows on the driver


def _differing(rows: Iterable[Row]) -> list[Range]:
    """Return the offsets on which replicas disagree."""
    return [(row["topic"], row["partition"], row["first"], row["last"]) for row in rows if row["found"] is None]


def _points(rows: Iterable[Row]) -> Seen:
    seen = Seen()
    for row in rows:
        if row["found"] is not None:
            seen.faults.append(ReplicaFault(*row["found"]))  # the struct has the fields' order
        elif row["kind"] is not None:
            place = (row["topic"], row["partition"], row["kind"], row["first"], row["last"])
            seen.intervals.append(Interval(*place, (row["r1"], row["r2"]), (row["d1"], row["d2"])))
    return seen


def _seen(rows: Iterable[Row]) -> Seen:
    """Return the faults and disagreements that a comparison of batches or records found."""
    seen = Seen()
    for row in rows:
        place, offsets = (row["class"], row["topic"], row["partition"]), (row["base_offset"], row["last"])
        views = [View(*view) for view in row["seen"]]  # the struct has the fields' order
        if row["class"] in (VALUE_MISMATCH, EPOCH_MISMATCH):
            pairs = tuple((pair["r1"], pair["r2"]) for pair in row["pairs"])
            seen.mismatches.append(Mismatch(*place, *offsets, row["count"], tuple(views), pairs))
        else:
            view = views[0]  # a replica's own, which may be there twice
            epoch = -1 if view.epoch is None else view.epoch
            of = (view.replica, view.segment, view.position)
            seen.faults.append(ReplicaFault(*place, *of, *offsets, epoch, row["file"], row["detail"], row["count"]))
    return seen
