"""Compares compacted parts record by record, as Spark SQL, and finds records that cleaning cannot have removed.

A record below the greatest offset that a replica was cleaned to stays in every replica while it is the newest of its
key there (CL-5, CL-8). A tombstone may go, and the records of an aborted transaction go (CL-6). A replica that lags may
still have records that a tombstone, gone itself, has removed from the others: only a replica that does not lag shows
the newest record. If a replica has lost a tombstone but still has an older value, that value would come back.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_jobs.audit.compare import MAX_RESULTS, committed, compare_batches, keyed
from spark_jobs.replicas.cleaned import ABORTED, BEYOND, COMMITTED, TOMBSTONE
from spark_jobs.replicas.faults import GAP

_KEY = ["topic", "partition"]
_VIEW = (
    "struct<replica: int, last_offset: long, leader_epoch: int, crc: long, size: long, segment: long, position: long>"
)

Compare = Callable[[DataFrame, DataFrame], DataFrame]

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
