"""Collects the leader epochs of partitions with findings, for the lineages of the report."""

from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_jobs.audit.findings import AuditFinding

LINEAGES = 100  # partitions
MAX_EPOCHS = 20_000  # their entries that are brought to the driver, in all

Epochs = dict[tuple[str, int, int], tuple[tuple[int, int], ...]]
"""Topic, partition, replica → (leader epoch, its first offset), in order."""


def collect_epochs(epochs: DataFrame, findings: Sequence[AuditFinding]) -> Epochs:
    """Return all epochs of each replica of the first partitions with findings, as long as `MAX_EPOCHS` allows."""
    names = list(dict.fromkeys(f"{finding.topic}-{finding.partition}" for finding in findings))[:LINEAGES]
    rows = (
        epochs.where(F.concat_ws("-", "topic", "partition").isin(names) & F.col("leader_epoch").isNotNull())
        .orderBy("topic", "partition", "replica", "start_offset")
        .select("topic", "partition", "replica", "leader_epoch", "start_offset")
        .limit(MAX_EPOCHS)
        .collect()
    )
    entries: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for topic, partition, replica, epoch, start in rows:
        entries[topic, partition, replica].append((epoch, start))
    if len(rows) == MAX_EPOCHS:
        entries.popitem()  # otherwise the last replica may miss entries
    return {place: tuple(lineage) for place, lineage in entries.items()}
