"""The audit: what Spark runs, in which order, and the report that comes of it.

Two jobs when replicas agree: describe the replicas, then compare them in one pass. A third one only at the index level
and only where indexes disagree, over the headers of the segments concerned, to name the first offset and the cause.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from spark_jobs.audit.compare import (
    EPOCH_MISMATCH,
    MAX_RESULTS,
    VALUE_MISMATCH,
    compare_batches,
    compare_indexes,
    marks_frame,
)
from spark_jobs.audit.findings import (
    Fault,
    Finding,
    Interval,
    Mismatch,
    Replica,
    View,
    verdict,
)
from spark_jobs.audit.resolve import resolve
from spark_jobs.replicas.sources import register


@dataclass
class Audit:
    """What an audit found."""

    level: str
    directories: dict[int, tuple[Path, ...]]
    replicas: list[Replica]
    findings: list[Finding]
    complete: bool = True  # False: there was more than is listed
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """Partitions that two replicas or more hold."""
        held = [(replica.topic, replica.partition) for replica in self.replicas if replica.partition >= 0]
        return sum(held.count(key) > 1 for key in set(held))

    @property
    def verdict(self) -> str:
        return verdict(self.findings, self.compared)


Progress = Callable[[str], None]


def audit(
    spark: SparkSession,
    directories: Mapping[int, Path | tuple[Path, ...]],
    topics: Sequence[str] = (),
    level: str = "index",
    progress: Progress = lambda stage: None,
) -> Audit:
    """Compare the replicas in `directories` (replica id → a broker's log directory, or all of them); see the command
    for the rules."""
    register(spark)
    every = {replica: (found,) if isinstance(found, Path) else found for replica, found in directories.items()}
    result = Audit(level, every, [], [])
    started = time.monotonic()

    def done(stage: str) -> None:
        nonlocal started
        result.seconds[stage] = round(time.monotonic() - started, 2)
        started = time.monotonic()

    def load(source: str, **options: str) -> DataFrame:
        reader = spark.read.format(source).option("topics", ",".join(topics))
        for replica, found in every.items():
            reader = reader.option(f"replica.{replica}", ",".join(map(str, found)))
        return reader.options(**options).load()

    progress("describing the replicas")
    result.replicas = [Replica(**row.asDict()) for row in load("replog_replicas").collect()]
    done("describe")
    marks = [(r.replica, r.topic, r.partition, r.mark) for r in result.replicas if r.readable and r.partition >= 0]
    rows: list[Row] = []
    intervals: list[Interval] = []
    if marks:
        marked = marks_frame(spark, marks)
        if level == "deep":
            progress("reading every batch")
            rows = compare_batches(load("replog_batches"), marked).collect()
            done("batches")
        else:
            progress("comparing the indexes")
            aligned = sorted({(r.topic, r.partition, at) for r in result.replicas for at in (r.log_start, r.mark)})
            indexes = load("replog_indexes", aligned=json.dumps(aligned))
            found = compare_indexes(indexes, marked).collect()
            rows = [row for row in found if row["found"] is not None]
            intervals = [_interval(row) for row in found if row["found"] is None]
            result.complete = len(found) < MAX_RESULTS
            done("indexes")
        if intervals:
            progress("reading the headers where indexes disagree")
            ranges = json.dumps([(i.topic, i.partition, i.first, i.last) for i in intervals])
            rows += compare_batches(load("replog_batches", ranges=ranges, crc="false"), marked).collect()
            done("headers")
    result.complete = result.complete and len(rows) < MAX_RESULTS
    faults = {fault: None for row in rows if (fault := _fault(row))}  # without those that both passes saw
    mismatches = [_mismatch(row) for row in rows if "class" in row and row["class"] in (VALUE_MISMATCH, EPOCH_MISMATCH)]
    result.findings = resolve(every, result.replicas, faults, mismatches, intervals)
    return result


def _fault(row: Row) -> Fault | None:
    place = (row["topic"], row["partition"])
    if "found" in row:
        found = row["found"]
        return Fault(
            found["fault"],
            *place,
            found["replica"],
            found["segment"],
            found["position"],
            found["base_offset"],
            found["last_offset"],
            -1 if found["leader_epoch"] is None else found["leader_epoch"],
            found["file"],
            found["detail"],
        )
    if row["class"] in (VALUE_MISMATCH, EPOCH_MISMATCH):
        return None
    view = row["seen"][0]
    epoch = -1 if view["leader_epoch"] is None else view["leader_epoch"]
    offsets = (row["base_offset"], row["last"])
    where = (view["replica"], view["segment"], view["position"])
    return Fault(row["class"], *place, *where, *offsets, epoch, row["file"], row["detail"], row["count"])


def _mismatch(row: Row) -> Mismatch:
    views = tuple(
        View(
            view["replica"],
            view["last_offset"],
            view["leader_epoch"],
            view["crc"],
            view["size"],
            view["segment"],
            view["position"],
        )
        for view in row["seen"]
    )
    return Mismatch(row["class"], row["topic"], row["partition"], row["base_offset"], row["last"], row["count"], views)


def _interval(row: Row) -> Interval:
    place = (row["topic"], row["partition"], row["kind"], row["first"], row["last"])
    return Interval(*place, (row["r1"], row["r2"]), (row["d1"], row["d2"]))


FINDINGS_SCHEMA = (
    "class string, topic string, partition int, replicas array<int>, first_offset long, last_offset long, "
    "batches long, wrong_replica int, why string, remedy string, "
    "evidence array<struct<replica: int, file: string, position: long, epoch: int, seen: string>>"
)


def finding_record(finding: Finding) -> dict[str, Any]:
    """A finding under the names of the reports."""
    return {
        "class": finding.kind,
        "topic": finding.topic,
        "partition": finding.partition,
        "replicas": list(finding.replicas),
        "first_offset": finding.first,
        "last_offset": finding.last,
        "batches": finding.batches,
        "wrong_replica": finding.wrong,
        "why": finding.why,
        "remedy": finding.remedy,
        "evidence": [
            {"replica": e.replica, "file": e.file, "position": e.position, "epoch": e.epoch, "seen": e.seen}
            for e in finding.evidence
        ],
    }


def write_findings(spark: SparkSession, result: Audit, path: Path) -> None:
    """The findings as a Parquet table, which is empty if there are none."""
    rows = [
        tuple(
            [tuple(e.values()) for e in value] if name == "evidence" else value
            for name, value in finding_record(finding).items()
        )
        for finding in result.findings
    ]
    frame = spark.createDataFrame(rows, FINDINGS_SCHEMA)
    frame.coalesce(1).write.mode("overwrite").parquet(str(path))
