"""Saved audits: what is taken over, what is not and why; without Spark."""

import shutil
from dataclasses import replace

import pytest

from replog.log.directories.partition_metadata import write_topic_id
from replog.topic import TopicPartition
from spark_jobs.audit.since import (
    BadSaved,
    FilesOfReplicas,
    Saved,
    TakenOver,
    bounds_of,
    landmarks,
    list_replicas,
    read_saved,
    saved_after,
    take_over,
    write_json,
)
from spark_jobs.replicas.blocks import Block, Cells, check_blocks
from spark_jobs.replicas.describe import Replica
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReadCount
from tests.spark_jobs.log_directories import BATCHES, Cluster, batch

ORDERS = TopicPartition("orders", 0)
VERIFIED_TO = 50


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    for replica in (1, 2, 3):
        write_topic_id(cluster.path(replica, "orders"), b"0123456789abcdef")
    return cluster


def listed(cluster: Cluster) -> FilesOfReplicas:
    return list_replicas([DirectoryStore(n, directory) for n, directory in cluster.directories.items()], [])


def saved(cluster: Cluster, level: str = "deep") -> Saved:
    return Saved(level, landmarks(listed(cluster), {ORDERS: VERIFIED_TO}))


def test_a_saved_audit_reads_back_as_it_was_written(cluster, tmp_path):
    before = saved(cluster)
    write_json(tmp_path / "saved.json", before.as_json())
    assert read_saved(tmp_path / "saved.json") == before
    mark = before.partitions[ORDERS].replicas[1]
    assert mark.last_batch is not None
    assert mark.last_batch[:3] == (48, 49, 3)
    assert mark.epochs == ((1, 0), (2, 24), (3, 48))
    assert mark.topic_id


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is not JSON, or was cut"),
        ("[]", "its values are of other kinds"),
        ("{}", "it has no 'format'"),
        ('{"format": "replog saved audit", "version": 2}', "version 2 is not 1"),
        ('{"format": "replog saved audit", "version": 1, "level": "shallow"}', "level 'shallow'"),
        (
            '{"format": "replog saved audit", "version": 1, "level": "deep", "partitions": '
            '[{"topic": "t", "partition": 0, "verified_to": 5, "replicas": []}]}',
            "verified_to 5 of 0 replicas",
        ),
        ('{"format": "replog saved audit", "version": 1, "level": "deep", "partitions": {"a": 1}}', "of other kinds"),
    ],
)
def test_a_file_that_is_no_saved_audit_is_refused_with_what_to_do(tmp_path, content, message):
    path = tmp_path / "saved.json"
    path.write_text(content)
    with pytest.raises(BadSaved, match="audit with --save and without --since") as refused:
        read_saved(path)
    assert message in str(refused.value)


def grow(cluster: Cluster) -> None:
    cluster.extend("orders", BATCHES, 40)


def test_what_only_grew_is_taken_over(cluster):
    before = saved(cluster)
    grow(cluster)
    assert take_over(before, "deep", listed(cluster)) == TakenOver({ORDERS: VERIFIED_TO})


def rewrite(cluster: Cluster) -> None:
    """Truncated below the saved offset, and written again."""
    directory = cluster.path(2, "orders")
    other = Cluster(cluster.directories[1].parent.parent / "other")
    other.build(2, "orders", changed=lambda n: batch(n, b"other" if n >= 20 else b"value"))
    for path in other.path(2, "orders").iterdir():
        (directory / path.name).write_bytes(path.read_bytes())


def other_epochs(cluster: Cluster) -> None:
    text = (cluster.path(2, "orders") / "leader-epoch-checkpoint").read_text()
    (cluster.path(2, "orders") / "leader-epoch-checkpoint").write_text(text.replace("2 24", "2 26"))


def replace_directory(cluster: Cluster) -> None:
    """The very same bytes, copied again."""
    directory = cluster.path(2, "orders")
    shutil.copytree(directory, directory.with_name("copy"), copy_function=shutil.copy)
    shutil.rmtree(directory)
    directory.with_name("copy").rename(directory)


def add_replica(cluster: Cluster) -> None:
    cluster.directories[4] = cluster.directories[1].with_name("4")
    shutil.copytree(cluster.directories[1], cluster.directories[4])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c.truncate(2, "orders", 30), "replica 2 ends below 50"),
        (rewrite, "replica 2 was truncated below 50: the last batch there is another one"),
        (other_epochs, "replica 2 has other leader epochs below 50"),
        (
            lambda c: write_topic_id(c.path(2, "orders"), b"another topic's."),
            "replica 2 belongs to another topic of that name",
        ),
        (replace_directory, "replica 2 was replaced"),
        (lambda c: shutil.rmtree(c.path(2, "orders")), "replica 2 has no segments"),
        (lambda c: c.directories.pop(2), "replica 2 is gone"),
        (add_replica, "replica 4 is new"),
        (lambda c: (c.path(2, "orders") / "leader-epoch-checkpoint").write_text("x\n"), "replica 2 has an epoch check"),
    ],
)
def test_what_does_not_fit_is_compared_as_a_whole_and_says_why(cluster, change, why):
    before = saved(cluster)
    change(cluster)
    taken = take_over(before, "deep", listed(cluster))
    assert taken.starts == {}
    assert taken.whole[ORDERS].startswith(why), taken
    assert any(why in line for line in taken.notes())


def test_a_deeper_audit_than_the_saved_one_takes_nothing_over(cluster):
    before = saved(cluster, "index")
    assert take_over(before, "deep", listed(cluster)).whole == {
        ORDERS: "saved at level index, which sees less than deep"
    }
    assert take_over(before, "digest", listed(cluster)).starts == {ORDERS: VERIFIED_TO}


def test_retention_since_then_fits(cluster):
    before = saved(cluster)
    for path in cluster.path(2, "orders").glob("00000000000000000000.*"):
        path.unlink()
    (cluster.path(2, "orders") / "leader-epoch-checkpoint").write_text("0\n3\n1 22\n2 24\n3 48\n")
    assert take_over(before, "deep", listed(cluster)).starts == {ORDERS: VERIFIED_TO}


def test_a_partition_is_verified_up_to_what_every_replica_has_and_knows_committed():
    replicas = [Replica(1, "t", 0, 0, 90, 100, 1, 1), Replica(2, "t", 0, 0, 95, 80, 1, 1)]
    assert bounds_of(replicas) == {TopicPartition("t", 0): 80}
    unread = Replica(3, "t", 0, 0, 90, 100, 1, 1, fault="UNREADABLE")
    assert bounds_of([*replicas, unread]) == {TopicPartition("t", 0): 0}


def test_an_audit_is_saved_as_weak_as_what_it_took_over_and_a_new_topic_says_that_nothing_was_verified(cluster):
    before = saved(cluster, "deep")
    cluster.add("flights")
    taken = take_over(before, "index", listed(cluster))
    assert saved_after("index", {}, set(), before, taken).level == "index"
    assert taken.whole == {TopicPartition("flights", 0): "the saved audit verified nothing of it"}
    assert taken.starts == {ORDERS: VERIFIED_TO}


def test_a_partition_with_a_finding_keeps_what_was_verified_before(cluster):
    before = saved(cluster)
    grow(cluster)
    taken = take_over(before, "deep", listed(cluster))
    verified = landmarks(listed(cluster), {ORDERS: 80})
    assert verified[ORDERS].verified_to == 80
    assert saved_after("deep", verified, set(), before, taken).partitions[ORDERS].verified_to == 80
    assert saved_after("deep", verified, {ORDERS}, before, taken).partitions[ORDERS].verified_to == VERIFIED_TO
    assert saved_after("deep", verified, {ORDERS}, None, TakenOver()).partitions == {}


@pytest.mark.parametrize("crc", [True, False])
def test_blocks_from_an_offset_on_are_those_of_the_whole_and_are_read_from_there(cluster, crc):
    cluster.build(1, "long", segment_bytes=1 << 20)
    (files,) = [f for f in DirectoryStore(1, cluster.directories[1]).partitions(frozenset(["long"])) if f.segments]
    (segment,) = files.segments
    whole = list(check_blocks(segment, 0, Cells(1 << 20, (0, 44), 60), crc=crc))
    count = ReadCount()
    tail = list(check_blocks(replace(segment, count=count), 0, Cells(1 << 20, (0, 44), 60, 44), crc=crc))
    assert [block for block in whole if isinstance(block, Block) and block.first >= 44] == tail
    assert tail
    assert count.bytes < segment.size, (count.bytes, segment.size)
