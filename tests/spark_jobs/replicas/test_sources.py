"""The data sources as Spark drives them, without Spark: options, input partitions, pickled, and the rows of each."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from replog.errors import ReplogError
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.sources import (
    MAX_SEGMENTS,
    PACKED_BYTES,
    BatchesSource,
    EpochsSource,
    ReplicaSource,
    ReplicasSource,
    SegmentWork,
    packed,
)
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


@pytest.mark.parametrize("source", [ReplicasSource, EpochsSource, BatchesSource])
def test_every_table_has_its_columns_and_every_replica(source, cluster):
    rows = table(source, options(cluster))
    assert list(rows[0]) == [column.split()[0] for column in source.columns.split(", ")]
    assert {(row["replica"], row["topic"]) for row in rows} == {(1, "t"), (2, "t"), (3, "t"), (1, "u")}
    assert [row for row in rows if row["fault"] is not None] == []


def test_topics_and_replicas_choose(cluster):
    for chosen in ({"topic": "u"}, {"topics": "u, nothing"}, {"topics": "u", "replicas": "1,2"}):
        rows = table(EpochsSource, options(cluster, **chosen))
        assert {(row["replica"], row["topic"]) for row in rows} == {(1, "u")}, chosen
    assert {row["replica"] for row in table(EpochsSource, options(cluster, replicas="2,3"))} == {2, 3}


@pytest.mark.parametrize("source", [ReplicasSource, EpochsSource, BatchesSource])
def test_what_cannot_be_listed_is_a_row_of_every_table(source, cluster):
    (row,) = table(source, {"replica.7": str(cluster.directories[1] / "nowhere")})
    assert (row["replica"], row["fault"]) == (7, "UNREADABLE")
    assert "nowhere" in row["detail"]


@pytest.mark.parametrize("source", [ReplicasSource, EpochsSource, BatchesSource])
@pytest.mark.parametrize("chosen", [{"topic": "none"}, {"replicas": "9"}])
def test_a_table_without_rows_has_an_input_partition_of_its_own(source, chosen, cluster):
    """Spark makes up one that no reader knows where there is none."""
    assert source(options(cluster, **chosen)).reader(StructType()).partitions()
    assert table(source, options(cluster, **chosen)) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "give either kafka.bootstrap.servers or replica.<id>"),
        ({"replica.one": "/"}, "option replica.one: 'one' is not a replica id"),
        ({"replica.1": "/", "bootstrap.servers": "localhost:1"}, "give either"),
        ({"replica.1": "/", "replicas": "x"}, "option replicas: 'x' is not a replica id"),
        ({"replica.1": " ,"}, "option replica.1 is empty"),
        ({"replica.1": "/a", "replica.2": "/b,/a/"}, "options replica.1 and replica.2 are one directory"),
        (
            {"replica.1": "/", "path": "/data"},
            "replog_batches knows no option path; it knows crc, kafka.bootstrap.servers, kafka.security",
        ),
        ({"replica.1": "/", "crc": "no"}, "option crc: 'no' is neither true nor false"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, told):
    with pytest.raises(ReplogError, match=told):
        BatchesSource(wrong).reader(StructType())


def test_directories_may_have_blanks_around_them_and_two_names(cluster):
    first, second = cluster.directories[1], cluster.directories[2]
    (first.parent / "link").symlink_to(first)
    one = table(EpochsSource, {"replica.1": str(first), "topic": "t"})
    assert len(table(EpochsSource, {"replica.1": f" {first} , {second}", "topic": "t"})) == 2 * len(one)
    assert len(table(EpochsSource, {"replica.1": f"{first},{first}/,{first.parent / 'link'}", "topic": "t"})) == len(
        one
    )


def test_small_segments_share_an_input_partition_and_large_ones_do_not():
    def sizes(*work: int) -> list[list[int]]:
        given = (SegmentWork(ReplicaSegment(DirectoryStore(1, Path()), "t", 0, 0, None, n, 0, 0), 0) for n in work)
        return [[item.segment.size for item in partition.work] for partition in packed(given)]

    half = PACKED_BYTES // 2
    assert sizes() == [[]]
    assert sizes(2 * half + 1, 1, half, half, 2 * half) == [[2 * half + 1], [1, half], [half], [2 * half]]
    assert sizes(*[1] * (MAX_SEGMENTS + 2)) == [[1] * MAX_SEGMENTS, [1, 1]]
