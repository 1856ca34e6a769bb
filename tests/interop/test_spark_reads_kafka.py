"""The Spark tables over the directories of a Kafka broker: what they count is what Kafka's own tool counts."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.replicas.sources import register
from tests.interop.dump import Batch, dump

TOPICS = ("codecs", "stamped", "transactions")


def table(spark: SparkSession, name: str, root: Path) -> DataFrame:
    register(spark)
    return spark.read.format(f"replog_{name}").option("replica.1", str(root)).option("topics", ",".join(TOPICS)).load()


@pytest.mark.parametrize("stop", ["clean", "crashed"])
def test_the_tables_hold_what_kafka_wrote(spark, kafka, history, stop):
    root: Path = getattr(history, stop)
    dumped = dump(kafka, [path for topic in TOPICS for path in sorted((root / f"{topic}-0").glob("*.log"))])
    assert dumped.complaints == []
    by_topic: dict[str, list[tuple[int, Batch]]] = {topic: [] for topic in TOPICS}
    for path, batches in dumped.batches.items():
        by_topic[path.parent.name.removesuffix("-0")] += [(int(path.stem), batch) for batch in batches]

    rows = table(spark, "batches", root).collect()
    assert [row for row in rows if row.fault] == []
    for topic, batches in by_topic.items():
        assert sorted(
            (row.segment, row.position, row.base_offset, row.last_offset, row.leader_epoch, row.crc, row.size)
            for row in rows
            if row.topic == topic
        ) == [(base, b.position, b.base_offset, b.last_offset, b.leader_epoch, b.crc, b.size) for base, b in batches]

    replicas = {row.topic: row for row in table(spark, "replicas", root).collect()}
    for topic, batches in by_topic.items():
        row = replicas[topic]
        assert (row.fault, row.log_start, row.log_end) == (None, 0, batches[-1][1].last_offset + 1)
        assert row.segments == len({base for base, _ in batches})
        assert row.size == sum(batch.size for _, batch in batches)

    epochs = table(spark, "epochs", root).collect()
    assert [row for row in epochs if row.fault] == []
    for topic in TOPICS:
        lines = (root / f"{topic}-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        assert [f"{row.leader_epoch} {row.start_offset}" for row in epochs if row.topic == topic] == lines


def test_index_entries_agree_with_the_batches(spark, history):
    """Kafka has no digests; all that it has is right, as many entries as the files have."""
    rows = table(spark, "indexes", history.clean).collect()
    assert [row for row in rows if row.fault] == []
    for kind, suffix, size in (("bytes", "index", 8), ("time", "timeindex", 12)):
        files = [path for topic in TOPICS for path in (history.clean / f"{topic}-0").glob(f"*.{suffix}")]
        assert sum(row.kind == kind and row.slot >= 0 for row in rows) == sum(
            path.stat().st_size // size for path in files
        )
