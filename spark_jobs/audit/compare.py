"""The comparison as Spark SQL, from rows of all replicas to faults and disagreements.

A replica's own faults go through the same grouping as the compared rows (each under a key of its own), so that a pass
over the files is one job.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_jobs.audit.findings import EPOCH_MISMATCH, VALUE_MISMATCH

MAX_RESULTS = 10_000  # rows brought to the driver

_KEY = ["topic", "partition"]
_PLACE = ("replica", "segment", "file", "position")
_FAULT = (*_PLACE[:2], "position", "base_offset", "last_offset", "leader_epoch", "fault", "file", "detail")
KnownMark = tuple[int, str, int, int]  # replica, topic, partition, high watermark
_MARKS = pa.schema({"replica": pa.int32(), "topic": pa.string(), "partition": pa.int32(), "mark": pa.int64()})


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
    relevant = indexes.where(F.col("fault").isNotNull() | (F.col("value").isNotNull() & (F.col("kind") != "time")))
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
