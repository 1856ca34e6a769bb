"""The data sources as Spark drives them, without Spark: options, input partitions, pickled, and the rows of each."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from spark_jobs.replicas import sources
from spark_jobs.replicas.parts import parts_of
from spark_jobs.replicas.sources import BatchesSource, EpochsSource, IndexesSource, ReplicaSource, ReplicasSource
from tests.spark_jobs.log_directories import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path)
    cluster.add("t")
    cluster.add("u", replicas=(1,))
    return cluster


def options(cluster: Cluster, **more: str) -> dict[str, str]:
    return {f"replica.{replica}": str(path) for replica, path in cluster.directories.items()} | more


def table(source: type[ReplicaSource], options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows, each input partition read by a reader that was pickled, as Spark does."""
    reader = source(options).reader(StructType())
    rows: list[dict[str, Any]] = []
    for partition in reader.partitions():
        other, part = pickle.loads(pickle.dumps((reader, partition)))
        for batch in other.read(part):
            rows += batch.to_pylist()
    return sorted(rows, key=str)


@pytest.mark.parametrize("source", [ReplicasSource, EpochsSource, IndexesSource, BatchesSource])
def test_every_table_has_its_columns_and_every_replica(source: type[ReplicaSource], cluster: Cluster) -> None:
    rows = table(source, options(cluster))
    assert list(rows[0]) == [column.split()[0] for column in source.columns.split(", ")]
    assert {(row["replica"], row["topic"]) for row in rows} == {(1, "t"), (2, "t"), (3, "t"), (1, "u")}
    assert [row for row in rows if row["fault"] is not None] == []


def test_topics_and_replicas_choose(cluster: Cluster) -> None:
    for chosen in ({"topic": "u"}, {"topics": "u, nothing"}, {"topics": "u", "replicas": "1,2"}):
        rows = table(EpochsSource, options(cluster, **chosen))
        assert {(row["replica"], row["topic"]) for row in rows} == {(1, "u")}, chosen
    assert {row["replica"] for row in table(EpochsSource, options(cluster, replicas="2,3"))} == {2, 3}


def test_a_table_is_the_same_however_its_segments_are_read(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.patch(2, "t", 24, 70, b"\xff")
    cluster.cut_out(3, "t", 30)
    whole = table(BatchesSource, options(cluster))
    assert {row["fault"] for row in whole} >= {None, "BIT_ROT", "GAP"}
    monkeypatch.setattr(sources, "parts_of", lambda segment: parts_of(segment, 300))
    assert table(BatchesSource, options(cluster)) == whole


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"replica.one": "/"},
        {"replica.1": "/", "bootstrap.servers": "localhost:1"},
        {"replica.1": "/", "replicas": "x"},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"replica"):
        BatchesSource(wrong).reader(StructType())
