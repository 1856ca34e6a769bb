"""An audit, from directories to the report; that it finds each fault, and nothing else, `tests/audit` shows."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from replog.log.formats.batch import HEADER_SIZE
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.log.log import Log
from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit, audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE, LEVELS, AuditFinding
from spark_jobs.audit.overview import states
from spark_jobs.audit.report import html_report, summary
from tests.damage.vocabulary import index_entries, producers, seal, segment_file, set_index_entry, written
from tests.replog.log.batches import append, open_log
from tests.replog.log.producers.writes import end, transact
from tests.spark_jobs.log_directories import BATCHES, END, SETTINGS, Cluster, batch, epoch_of

VALUE = [("VALUE_MISMATCH", 3, 20, 21)]
LOST = [("COMMITTED_LOSS", 3, 0, 59)]
OUT_OF_STEP = [("VALUE_MISMATCH", 2, 23, 24)]
ROT = [("BIT_ROT", 2, 24, 25)]  # its digest was right when it was written
TWO_CHANGED = [("VALUE_MISMATCH", 1, 20, 21), ("VALUE_MISMATCH", 2, 20, 21)]  # their digests say so, and 3 has them
SURPLUS = [("BIT_ROT", 3, 22, 22)]  # at the end of the first segment
TRANSACTIONS = [("INDEX_LIE", 2, 1, 11), ("INDEX_LIE", 3, 12, 12)]  # an empty `.txnindex`; a sequence in a `.snapshot`
EXPECTED = {  # by topic: class, the replica that is wrong, first and last offset, at each level
    "healthy": ([], [], [], []),
    "alone": ([], [], [], []),
    "lag": ([], [], [], []),
    "empty": ([], [], [], []),
    "value": (VALUE, VALUE, VALUE, VALUE),
    "lost": (LOST, LOST, LOST, LOST),
    "out-of-step": (OUT_OF_STEP, OUT_OF_STEP, OUT_OF_STEP, OUT_OF_STEP),
    "bit-rot": ([], [], [], ROT),
    "two-changed": ([], [], TWO_CHANGED, TWO_CHANGED),  # digests are as they were
    "transactions": ([], [], [], TRANSACTIONS),
    "surplus": (SURPLUS, SURPLUS, SURPLUS, SURPLUS),
}

LIES = {"index": 2, "timeindex": 3, "digest": 1}  # an index of which replica lies


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    cluster = Cluster(tmp_path_factory.mktemp("brokers"))
    for topic in ("healthy", "lost", "bit-rot", "unreadable", "two-changed", "surplus", *LIES):
        cluster.add(topic)
    cluster.add("alone", (1,))
    for replica in (1, 2, 3):
        wrong = 10 if replica == 3 else None
        cluster.build(replica, "value", changed=lambda n, wrong=wrong: batch(n, b"wrong" if n == wrong else b"value"))
        cluster.build(replica, "empty", batches=0, mark=0)
        cluster.build(replica, "lag", batches=BATCHES if replica == 1 else 25, mark=END if replica == 1 else 48)
    _build_out_of_step(cluster)
    cluster.patch(2, "bit-rot", 24, HEADER_SIZE + 5, b"\xff")
    for replica in (1, 2, 3):
        _build_transactions(cluster, replica)
    written(segment_file(0, "txnindex"))(cluster.path(2, "transactions"))
    producers(segment_file(13, "snapshot"), 5, last_sequence=9)(cluster.path(3, "transactions"))
    for replica in (1, 2):
        cluster.patch(replica, "two-changed", 20, HEADER_SIZE + 5, b"\xff")
        seal(cluster.locate(replica, "two-changed", 20)[0])
    with min(cluster.path(3, "surplus").glob("*.log")).open("ab") as file:
        file.write(b"\xff" * 50)
    shutil.rmtree(cluster.path(3, "lost"))
    for kind, replica in LIES.items():
        path = sorted(cluster.path(replica, kind).glob(f"*.{kind}"))[1]
        key, value = index_entries(path)[1]
        set_index_entry(path, 1, (key, value ^ 1))
    log = max(cluster.path(3, "unreadable").glob("*.log"))
    log.unlink()
    log.mkdir()  # opens, but every read fails: what a bad disk does
    return cluster


def _build_transactions(cluster: Cluster, replica: int) -> None:
    """Each a record, and then the marker that aborts it."""
    log: Log = open_log(cluster.path(replica, "transactions"), **SETTINGS)
    for number in range(15):
        transact(log, 5, number)
        end(log, 5, commit=False)
    log.close()
    cluster.marks[replica][TopicPartition("transactions", 0)] = 30
    cluster.write_checkpoints()


def _build_out_of_step(cluster: Cluster) -> None:
    """Replica 2 begins in the middle of a batch of the others, and no batch of it begins where one of theirs does."""
    cluster.add("out-of-step", (1, 3))
    log: Log = open_log(cluster.path(2, "out-of-step"), log_start_offset=23, **SETTINGS)
    for number in range(12, BATCHES):
        append(log, batch(number), epoch=epoch_of(number))
    log.close()
    cluster.marks[2][TopicPartition("out-of-step", 0)] = END - 1
    cluster.write_checkpoints()


@pytest.fixture(scope="module")
def audits(spark: SparkSession, cluster: Cluster) -> dict[str, Audit]:
    """By level."""
    return {level: audit(spark, cluster.directories, level=level) for level in LEVELS}


def of_topic(result: Audit, topic: str) -> list[AuditFinding]:
    return [finding for finding in result.findings if finding.topic == topic]


def places(findings: list[AuditFinding]) -> list[tuple[Any, ...]]:
    return [(finding.kind, finding.wrong, finding.first, finding.last) for finding in findings]


@pytest.mark.parametrize("topic", EXPECTED)
def test_each_level_names_class_replica_and_offsets_of_what_it_sees(audits, topic):
    assert tuple(places(of_topic(audits[level], topic)) for level in LEVELS) == EXPECTED[topic]


@pytest.mark.parametrize("kind", LIES)
def test_a_changed_index_entry_is_a_lie_of_that_file(audits, kind):
    for level in LEVELS[1:]:
        (finding,) = of_topic(audits[level], kind)
        assert (finding.kind, finding.wrong) == ("INDEX_LIE", LIES[kind]), finding
        assert finding.evidence[0].file.endswith(f".{kind}"), finding


def test_evidence_shows_the_values_of_every_replica_and_the_map_tells_lag_from_faults(audits):
    (finding,) = of_topic(audits["deep"], "value")
    assert [evidence.replica for evidence in finding.evidence] == [1, 2, 3]
    assert finding.evidence[0].seen == finding.evidence[1].seen != finding.evidence[2].seen
    state_of = states(audits["deep"])
    assert (state_of["lag", 0, 1], state_of["lag", 0, 2]) == ("ok", "lagging")
    assert (state_of["bit-rot", 0, 1], state_of["bit-rot", 0, 2]) == ("ok", "fault")
    assert state_of["unreadable", 0, 3] == "unreadable"


def test_what_a_level_reads_is_told(audits):
    read = {level: result.bytes_read for level, result in audits.items()}
    assert read["deep"]["batches"] > 0.9 * sum(replica.size for replica in audits["deep"].replicas)
    assert 0 < read["digest"]["digests"] < read["index"]["indexes"] < read["batches"]["batches"]
    assert summary(audits["digest"])["bytes_read"] == read["digest"]


def test_only_the_topics_asked_for_are_audited_and_nothing_is_written_into_the_directories(spark, cluster):
    def files() -> dict[Path, int]:
        root = cluster.directories[1].parent
        return {path: path.stat().st_mtime_ns for path in root.rglob("*")}

    before = files()
    result = audit(spark, cluster.directories, ["healthy", "lag"], "deep")
    assert {replica.topic for replica in result.replicas} == {"healthy", "lag"}
    assert (result.verdict, result.compared) == (CONSISTENT, 2)
    assert files() == before


def test_a_directory_whose_checkpoint_is_damaged_is_inconclusive_as_a_whole(spark, tmp_path):
    cluster = Cluster(tmp_path)
    cluster.add("orders")
    (cluster.directories[2] / "replication-offset-checkpoint").write_text("garbage\n")
    result = audit(spark, cluster.directories, level="index")
    assert result.verdict == INCONCLUSIVE
    assert [(finding.kind, finding.wrong) for finding in result.findings] == [("UNREADABLE", 2)]
    assert "version 'garbage' is not 0" in result.findings[0].why
    assert "whole log directory" in html_report(result)


def test_a_broker_may_have_several_log_directories(spark, tmp_path):
    """One replica in each, of which the other one's checkpoint also tells, as it moved. And a copy in the making of the
    one in the other: that is no replica yet."""
    cluster = Cluster(tmp_path)
    cluster.add("orders")
    cluster.add("flights")
    first, second = cluster.directories[2], tmp_path / "2b"
    second.mkdir()
    cluster.path(2, "flights").rename(second / "flights-0")
    (second / f"orders-0.{'0' * 32}-future").mkdir()
    marks = dict(cluster.marks[2])
    OffsetCheckpoint(second / HIGH_WATERMARK_CHECKPOINT).write(marks)
    moved = {TopicPartition("orders", 0): END, TopicPartition("flights", 0): 20}
    OffsetCheckpoint(first / HIGH_WATERMARK_CHECKPOINT).write(moved)  # from before the move
    directories: dict[int, Path | tuple[Path, ...]] = {**cluster.directories, 2: (first, second)}
    result = audit(spark, directories, level="index")
    assert (result.verdict, result.compared, len(result.replicas)) == (CONSISTENT, 2, 6), result.findings
    assert f"{first},{second}" in html_report(result)
    max((second / "flights-0").glob("*.log")).write_bytes(b"")
    result = audit(spark, directories, level="index")
    assert result.verdict == DIVERGED
    assert {finding.wrong for finding in result.findings} == {2}
