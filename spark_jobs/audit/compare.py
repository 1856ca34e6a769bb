"""The comparison as Spark SQL, from rows of all replicas to faults and disagreements.

A replica's own faults go through the same grouping as the compared rows (each under a key of its own), so that a pass
over the files is one job.

Compacted parts are compared record by record, to find records that cleaning cannot have removed. A record below the
greatest offset that a replica was cleaned to stays in every replica while it is the newest of its key there (CL-5,
CL-8). A tombstone may go, and the records of an aborted transaction go (CL-6). A replica that lags may still have
records that a tombstone, gone itself, has removed from the others: only a replica that does not lag shows the newest
record. If a replica has lost a tombstone but still has an older value, that value would come back.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_jobs.audit.findings import EPOCH_MISMATCH, VALUE_MISMATCH
from spark_jobs.replicas.cleaned import ABORTED, BEYOND, COMMITTED, TOMBSTONE
from spark_jobs.replicas.faults import GAP

MAX_RESULTS = 10_000  # rows brought to the driver

_KEY = ["topic", "partition"]
_PLACE = ("replica", "segment", "file", "position")
_FAULT = ("fault", *_KEY, *_PLACE[:2], "position", "base_offset", "last_offset", "leader_epoch", "file", "detail")
_VIEW = (
    "struct<replica: int, last_offset: long, leader_epoch: int, crc: long, size: long, segment: long, position: long>"
)
Compare = Callable[[DataFrame, DataFrame], DataFrame]
KnownMark = tuple[int, str, int, int]  # replica, topic, partition, high watermark
_MARKS = pa.schema({"replica": pa.int32(), "topic": pa.string(), "partition": pa.int32(), "mark": pa.int64()})
_SCOPES = pa.schema(
    {
        "holder": pa.int32(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "first": pa.int64(),
        "end": pa.int64(),
        "witnesses": pa.list_(pa.int32()),
    }
)


def marks_frame(spark: SparkSession, marks: Sequence[KnownMark]) -> DataFrame:
    """Return the replicas' high watermarks as a small table to broadcast.

    An offset is compared among the replicas that know it to be committed. Offsets above the high watermark are lag, or
    an uncommitted tail that may still be truncated. A replica without a high watermark is not compared with others.
    """
    rows = [dict(zip(_MARKS.names, mark, strict=True)) for mark in marks]
    return F.broadcast(spark.createDataFrame(pa.Table.from_pylist(rows, _MARKS)))  # Arrow data takes no job


def keyed(rows: DataFrame, marks: DataFrame) -> DataFrame:
    """Add to rows of a pass the replica's high watermark, and `fault_key`, which only faults have."""
    # Segments may overlap in a damaged replica, so the key of a fault has its whole place.
    fault_key = F.when(F.col("fault").isNotNull(), F.concat_ws("/", "fault", *_PLACE, "base_offset"))
    marked = rows.where(F.col("read").isNull()).join(marks, ["replica", *_KEY], "left")
    return marked.withColumn("fault_key", fault_key).where(F.col("fault_key").isNotNull() | F.col("mark").isNotNull())


def compare_blocks(rows: DataFrame, marks: DataFrame) -> DataFrame:
    """Return all faults (`found`), and the blocks on which replicas disagree (`first`, `last`, without `found`)."""
    sums = (
        committed(keyed(rows, marks))
        .groupBy(*_KEY, "number", "cell", "fault_key", "replica")
        .agg(
            F.min("base_offset").alias("first"),
            F.max("last_offset").alias("last"),
            F.struct(F.sum("batches"), F.sum("size"), F.sum("value")).alias("sums"),
            F.first(F.struct(*_FAULT)).alias("found"),
        )
    )
    return (
        sums.groupBy(*_KEY, "number", "cell", "fault_key")
        .agg(
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            (F.min("sums") != F.max("sums")).alias("differs"),
            F.first("found").alias("found"),
        )
        .where(F.col("fault_key").isNotNull() | F.col("differs"))
        .select(*_KEY, "first", "last", F.when(F.col("fault_key").isNotNull(), F.col("found")).alias("found"))
        .orderBy(*_KEY, "first")
        .limit(MAX_RESULTS)
    )


def compare_batches(batches: DataFrame, marks: DataFrame) -> DataFrame:
    """Return all faults, and runs of committed batches on which replicas disagree.

    A run begins with the first batch that two replicas see differently. It ends before the next batch on which they
    agree, even if they cut their batches differently in between. Pairs of replicas that part at the same batch make
    one run. Columns: topic, partition, class, base_offset, last, count, seen (each replica's view of the first batch),
    pairs (r1, r2), and for faults file and detail.
    """
    view = F.struct("replica", "last_offset", "leader_epoch", "crc", "size", "segment", "position")
    grouped = (
        committed(keyed(batches, marks))
        .groupBy(*_KEY, "base_offset", "fault_key")
        .agg(
            F.array_sort(F.collect_list(view)).alias("seen"),
            F.max("last_offset").alias("last"),
            F.first(F.struct("fault", "file", "detail")).alias("found"),
        )
        .where(F.col("fault_key").isNotNull() | (F.size("seen") > 1))
    )
    return _runs(grouped).orderBy(*_KEY, "base_offset").limit(MAX_RESULTS)


def committed(rows: DataFrame) -> DataFrame:
    """Return all faults, and the rows that their replica knows to be committed: others may still be truncated."""
    return rows.where(F.col("fault_key").isNotNull() | (F.col("base_offset") < F.col("mark")))


def _pairs(made: Callable[[Column, Column], list[Column]]) -> Column:
    """Return a struct for every two replicas in `seen`: r1, r2, and the result of `made` for their views."""
    return F.flatten(
        F.transform(
            "seen",
            lambda a: F.transform(
                F.filter("seen", lambda b: b["replica"] > a["replica"]),
                lambda b: F.struct(a["replica"].alias("r1"), b["replica"].alias("r2"), *made(a, b)),
            ),
        )
    )


def _runs(grouped: DataFrame) -> DataFrame:
    """Join the batches on which two replicas disagree into runs; each fault is a run of its own."""

    def differ(a: Column, b: Column) -> list[Column]:
        bytes_differ = (a["last_offset"] != b["last_offset"]) | (a["crc"] != b["crc"]) | (a["size"] != b["size"])
        return [bytes_differ.alias("value"), (bytes_differ | (a["leader_epoch"] != b["leader_epoch"])).alias("any")]

    alone = F.when(F.col("fault_key").isNotNull(), F.col("fault_key")).alias("alone")
    paired = grouped.withColumn("pair", F.explode_outer(_pairs(differ))).select(
        *_KEY, "base_offset", "seen", "last", "found", alone, "pair.*"
    )
    lane = Window.partitionBy(*_KEY, "alone", "r1", "r2").orderBy("base_offset")
    runs = (
        paired.withColumn("run", F.sum((~F.col("any")).cast("int")).over(lane))
        .where(F.col("alone").isNotNull() | F.col("any"))
        .groupBy(*_KEY, "alone", "r1", "r2", "run")
        .agg(
            F.first("found").alias("found"),
            F.min(F.struct("base_offset", "seen")).alias("at"),
            F.max("last").alias("last"),
            F.count("*").alias("count"),
            F.max("value").alias("value"),
        )
    )
    of_batches = F.when(F.max("value"), VALUE_MISMATCH).otherwise(EPOCH_MISMATCH)
    return runs.groupBy(*_KEY, "alone", "at.base_offset").agg(
        F.first("at.seen").alias("seen"),
        F.sort_array(F.collect_set(F.struct("r1", "r2"))).alias("pairs"),
        F.max("last").alias("last"),
        F.max("count").alias("count"),
        F.coalesce(F.first("found.fault"), of_batches).alias("class"),
        F.first("found.file").alias("file"),
        F.first("found.detail").alias("detail"),
    )


def compare_indexes(indexes: DataFrame, marks: DataFrame) -> DataFrame:
    """Return all faults, and the intervals between common offsets on which two replicas disagree.

    Two replicas agree if consecutive offsets that both have are equally far apart, in bytes or by digest, for each kind
    of point. Columns: topic, partition, kind, first, last, r1, r2, d1, d2 of an interval; topic, partition and `found`
    (columns of the source) of a fault.
    """
    point = F.struct("replica", "value", "mark")
    relevant = indexes.where(F.col("fault").isNotNull() | F.col("value").isNotNull())
    grouped = (
        keyed(relevant, marks)
        .groupBy(*_KEY, "kind", F.col("last_offset").alias("offset"), "fault_key")
        .agg(F.collect_set(point).alias("seen"), F.first(F.struct(*_FAULT)).alias("found"))
        .where(F.col("fault_key").isNotNull() | (F.size("seen") > 1))
    )

    def apart(a: Column, b: Column) -> list[Column]:
        bound = F.least(a["mark"], b["mark"]).alias("bound")
        return [bound, a["value"].alias("v1"), b["value"].alias("v2")]

    paired = (
        grouped.withColumn("pair", F.explode_outer(_pairs(apart)))
        .select(*_KEY, "kind", "offset", "fault_key", "found", "pair.*")
        .where(F.col("fault_key").isNotNull() | (F.col("offset") < F.col("bound")))
    )
    lane = Window.partitionBy(*_KEY, "kind", "fault_key", "r1", "r2").orderBy("offset")
    steps = paired.withColumn("before", F.lag("offset").over(lane)).withColumns(
        {f"d{n}": F.col(f"v{n}") - F.lag(f"v{n}").over(lane) for n in (1, 2)}
    )
    return (
        steps.where(F.col("fault_key").isNotNull() | (F.col("d1") != F.col("d2")))
        .select(
            *_KEY,
            "kind",
            (F.col("before") + 1).alias("first"),
            F.col("offset").alias("last"),
            "r1",
            "r2",
            "d1",
            "d2",
            F.when(F.col("fault_key").isNotNull(), F.col("found")).alias("found"),
        )
        .orderBy(*_KEY, "last")
        .limit(MAX_RESULTS)
    )


# -- records


class Scope(NamedTuple):
    """The committed offsets that a replica must have, from `first` to `end`, which is `cleaned_to` at most."""

    holder: int  # the replica
    topic: str
    partition: int
    first: int
    end: int
    cleaned_to: int  # the greatest of the partition's replicas


def compare_records(spark: SparkSession, scopes: Sequence[Scope]) -> Compare:
    """Return a comparison like `compare_batches`, of records. A run of records that a replica lost is a GAP."""
    witnesses: dict[tuple[str, int], list[int]] = defaultdict(list)
    for scope in scopes:
        if scope.end >= scope.cleaned_to:
            witnesses[scope.topic, scope.partition].append(scope.holder)
    rows = [scope._asdict() | {"witnesses": witnesses[scope.topic, scope.partition]} for scope in scopes]
    answerable = F.broadcast(spark.createDataFrame(pa.Table.from_pylist(rows, _SCOPES)))

    def compare(rows: DataFrame, marks: DataFrame) -> DataFrame:
        lost = _lost(_newest(committed(keyed(rows, marks)).where(F.col("fault").isNull())), answerable)
        within = F.col("flags").isNull() | (F.col("flags") < BEYOND)  # beyond it, blocks of batches are compared
        return compare_batches(rows.where(within), marks).unionByName(lost, allowMissingColumns=True)

    return compare


def _newest(rows: DataFrame) -> DataFrame:
    """Return each key's newest record: `offset`, `tombstone`, the replicas that have it (`holders`) or any value of the
    key (`values`). A key is left out if its newest record is in a transaction whose end is not seen."""
    by_offset = rows.groupBy(*_KEY, F.col("base_offset").alias("offset")).agg(
        F.collect_set("key").alias("keys"),
        F.collect_set("replica").alias("holders"),
        F.max("producer").alias("producer"),
        F.max("flags").alias("flags"),
    )
    kind = F.col("flags") % BEYOND
    ends = F.when(kind.isin(COMMITTED, ABORTED), kind)
    onwards = Window.partitionBy(*_KEY, "producer").orderBy(F.desc("offset"))
    of_transactions = by_offset.where(F.col("producer").isNotNull()).withColumn(
        "end", F.last(ends, ignorenulls=True).over(onwards)
    )
    plain = by_offset.where(F.col("producer").isNull()).withColumn("end", F.lit(COMMITTED))
    has_value = kind != TOMBSTONE
    return (
        plain.unionByName(of_transactions)
        .where(F.col("end").isNull() | (F.col("end") == COMMITTED))
        .withColumn("key", F.explode("keys"))
        .groupBy(*_KEY, "key")
        .agg(
            F.max_by(F.struct("offset", (~has_value).alias("tombstone"), "holders", "end"), "offset").alias("newest"),
            F.flatten(F.collect_set(F.when(has_value, F.col("holders")))).alias("values"),
        )
        .where(F.col("newest.end").isNotNull())
        .select(*_KEY, "newest.offset", "newest.tombstone", "newest.holders", "values")
    )


def _lost(newest: DataFrame, scopes: DataFrame) -> DataFrame:
    """Return runs of newest records that a replica should have; it has no newest record in between."""
    held = F.array_contains("holders", F.col("holder"))
    revived = F.col("tombstone") & F.array_contains("values", F.col("holder"))
    witnessed = ~F.col("tombstone") & F.arrays_overlap("holders", "witnesses")
    judged = (
        newest.join(scopes, _KEY)
        .where((F.col("offset") >= F.col("first")) & (F.col("offset") < F.col("end")))
        .where(held | witnessed | revived)
        .select(*_KEY, "holder", "offset", (~held).alias("lost"))
    )
    lane = Window.partitionBy(*_KEY, "holder").orderBy("offset")
    runs = (
        judged.withColumn("run", F.sum((~F.col("lost")).cast("int")).over(lane))
        .where("lost")
        .groupBy(*_KEY, "holder", "run")
        .agg(F.min("offset").alias("base_offset"), F.max("offset").alias("last"), F.count("*").alias("count"))
    )
    seen = F.array(F.struct(F.col("holder").alias("replica"), *(F.lit(None) for _ in range(6))).cast(_VIEW))
    detail = F.concat_ws(" ", F.lit("the newest records of"), "count", F.lit("keys are missing"))
    return (
        runs.select(
            *_KEY,
            F.lit(GAP).alias("class"),
            "base_offset",
            seen.alias("seen"),
            F.lit("").alias("file"),
            detail.alias("detail"),
            "last",
            "count",
        )
        .orderBy(*_KEY, "base_offset")
        .limit(MAX_RESULTS)
    )
