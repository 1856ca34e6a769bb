"""The comparison itself, as Spark SQL: rows of all replicas in, faults and disagreements out.

A replica's own faults travel through the same grouping as what is compared (each under a key of its own), so that a
pass over the files is one job.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

VALUE_MISMATCH = "VALUE_MISMATCH"
EPOCH_MISMATCH = "EPOCH_MISMATCH"
MAX_RESULTS = 10_000  # rows brought to the driver

_KEY = ["topic", "partition"]
_PLACE = ("replica", "segment", "file", "position")
_FAULT = (*_PLACE[:2], "position", "base_offset", "last_offset", "leader_epoch", "fault", "file", "detail")
Mark = tuple[int, str, int, int]  # replica, topic, partition, high watermark


def marks_frame(spark: SparkSession, marks: Sequence[Mark]) -> DataFrame:
    """The replicas' high watermarks as a small table to broadcast.

    An offset is compared where every replica that holds it knows it to be committed: anything above is lag, or an
    uncommitted tail that may still be truncated. A replica without a high watermark is not compared with others.
    """
    values = ", ".join(f"({replica}, '{topic}', {partition}, {mark}L)" for replica, topic, partition, mark in marks)
    return F.broadcast(spark.sql(f"SELECT * FROM VALUES {values} AS marks(replica, topic, partition, mark)"))


def _keyed(rows: DataFrame, marks: DataFrame) -> DataFrame:
    """Rows of a pass, with the replica's high watermark, and `fault_key`, which tells faults from everything else."""
    # Segments may overlap in a damaged replica: a fault's key keeps it apart from the others.
    fault_key = F.when(F.col("fault").isNotNull(), F.concat_ws("/", "fault", *_PLACE))
    marked = rows.where(F.col("read").isNull()).join(marks, ["replica", *_KEY], "left")
    return marked.withColumn("fault_key", fault_key).where(F.col("fault_key").isNotNull() | F.col("mark").isNotNull())


def compare_blocks(rows: DataFrame, marks: DataFrame) -> DataFrame:
    """Faults as they come (`found`), and the blocks on which replicas disagree (`first`, `last`, without `found`)."""
    sums = (
        _keyed(rows, marks)
        .groupBy(*_KEY, "number", "cell", "fault_key", "replica")
        .agg(
            F.min("base_offset").alias("first"),
            F.max("last_offset").alias("last"),
            F.struct(F.sum("batches"), F.sum("size"), F.sum("value")).alias("sums"),
            F.min("mark").alias("mark"),
            F.first(F.struct(*_FAULT)).alias("found"),
        )
    )
    return (
        sums.groupBy(*_KEY, "number", "cell", "fault_key")
        .agg(
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            (F.min("sums") != F.max("sums")).alias("differs"),
            F.min("mark").alias("bound"),
            F.first("found").alias("found"),
        )
        .where(F.col("fault_key").isNotNull() | (F.col("differs") & (F.col("first") < F.col("bound"))))
        .select(*_KEY, "first", "last", F.when(F.col("fault_key").isNotNull(), F.col("found")).alias("found"))
        .orderBy(*_KEY, "first")
        .limit(MAX_RESULTS)
    )


def compare_batches(batches: DataFrame, marks: DataFrame) -> DataFrame:
    """Faults as they come, and runs of committed batches on which replicas disagree.

    Result: topic, partition, class, first, last, count, seen (one struct a replica: its view of the first batch), and
    for faults replica, segment, position, epoch, file, detail.
    """
    view = F.struct("replica", "last_offset", "leader_epoch", "crc", "size", "segment", "position")
    grouped = (
        _keyed(batches, marks)
        .groupBy(*_KEY, "base_offset", "fault_key")
        .agg(
            F.array_sort(F.collect_list(view)).alias("seen"),
            *(F.first(name).alias(name) for name in ("fault", "file", "detail")),
            (F.min("crc") != F.max("crc")).alias("crc_differs"),
            (F.min("last_offset") != F.max("last_offset")).alias("last_differs"),
            (F.min("size") != F.max("size")).alias("size_differs"),
            (F.min("leader_epoch") != F.max("leader_epoch")).alias("epoch_differs"),
            F.max("last_offset").alias("last"),
            F.min("mark").alias("bound"),
        )
    )
    differs = F.coalesce(F.col("crc_differs") | F.col("last_differs") | F.col("size_differs"), F.lit(False))
    kind = F.coalesce("fault", F.when(differs, F.lit(VALUE_MISMATCH)).when(F.col("epoch_differs"), EPOCH_MISMATCH))
    found = (
        grouped.withColumn("class", kind)
        .where(F.col("class").isNotNull())
        .where(F.col("fault").isNotNull() | (F.col("base_offset") < F.col("bound")))
    )
    return _runs(found.withColumn("signature", F.coalesce("fault_key", _signature())))


def _signature() -> Column:
    """Which replicas agree with which: `replica:group`, groups numbered by first appearance."""

    def value(view: Column) -> Column:
        return F.concat_ws("/", view["last_offset"], view["crc"], view["size"], view["leader_epoch"])

    values = F.transform("seen", value)
    return F.concat_ws(
        ",",
        F.transform(
            "seen",
            lambda view: F.concat_ws(":", view["replica"], F.array_position(F.array_distinct(values), value(view))),
        ),
    )


def _runs(found: DataFrame) -> DataFrame:
    """Join neighbouring batches with the same kind of disagreement into one row."""
    lane = Window.partitionBy(*_KEY, "class", "signature").orderBy("base_offset")
    begins = (F.col("base_offset") != F.lag("last", 1, -2).over(lane) + 1).cast("int")
    numbered = found.withColumn("begins", begins).withColumn("run", F.sum("begins").over(lane))
    first = F.struct("base_offset", "seen", "file", "detail")
    return (
        numbered.groupBy(*_KEY, "class", "signature", "run")
        .agg(F.min(first).alias("at"), F.max("last").alias("last"), F.count("*").alias("count"))
        .select(*_KEY, "class", "at.*", "last", "count")
        .orderBy(*_KEY, "base_offset")
        .limit(MAX_RESULTS)
    )


def compare_indexes(indexes: DataFrame, marks: DataFrame) -> DataFrame:
    """Faults as they come, and the intervals between common offsets on which two replicas disagree.

    For each pair of replicas and each kind of point, consecutive offsets that both have are as far apart, in bytes or
    by digest, in one as in the other. Result: topic, partition, kind, first, last, r1, r2, d1, d2 of an interval;
    topic, partition and `found` (columns of the source) of a fault.
    """
    point = F.struct("replica", "value", "mark")
    relevant = indexes.where(F.col("fault").isNotNull() | (F.col("value").isNotNull() & (F.col("kind") != "time")))
    grouped = (
        _keyed(relevant, marks)
        .groupBy(*_KEY, "kind", F.col("last_offset").alias("offset"), "fault_key")
        .agg(F.collect_set(point).alias("seen"), F.first(F.struct(*_FAULT)).alias("found"))
        .where(F.col("fault_key").isNotNull() | (F.size("seen") > 1))
    )
    pairs = F.flatten(
        F.transform(
            "seen",
            lambda a: F.transform(
                F.filter("seen", lambda b: b["replica"] > a["replica"]),
                lambda b: F.struct(
                    F.least(a["mark"], b["mark"]).alias("bound"),
                    a["replica"].alias("r1"),
                    b["replica"].alias("r2"),
                    a["value"].alias("v1"),
                    b["value"].alias("v2"),
                ),
            ),
        )
    )
    paired = (
        grouped.withColumn("pair", F.explode_outer(pairs))
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
