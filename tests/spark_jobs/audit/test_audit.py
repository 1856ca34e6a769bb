"""The audit finds each fault where it was put, and nothing where replicas may differ."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit, audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE, LEVELS, AuditFinding, verdict
from spark_jobs.audit.overview import states
from spark_jobs.audit.report import html_report
from spark_jobs.audit.results import summary, write_findings
from tests.spark_jobs.log_directories import END, Cluster, build_everything

LOSS = "COMMITTED_LOSS"
Places = dict[str, list[tuple[str, int, int, int]]]  # topic → class, the replica that is wrong, first and last offset
INDEXED: Places = {  # otherwise by one replica than by the others
    "value": [("VALUE_MISMATCH", 3, 20, 21)],
    "divergent": [("VALUE_MISMATCH", 2, 48, 59)],
    "layout-value": [("VALUE_MISMATCH", 3, 34, 35)],
    "loss-tail": [(LOSS, 3, 50, 59)],
    "loss-middle": [(LOSS, 2, 24, 25)],
    "loss-segment": [(LOSS, 1, 22, 43)],
    "loss-all": [(LOSS, 3, 0, 59)],
    "out-of-step": [("VALUE_MISMATCH", 2, 23, 24)],
}
CHECKPOINTED: Places = {"epoch-missing": [("EPOCH_CACHE_LIE", 2, 0, 59)]}
IN_HEADERS: Places = {
    "epoch": [("EPOCH_MISMATCH", 2, 28, 29)],
    "epoch-lie": [("EPOCH_CACHE_LIE", 3, 24, 27)],
    "rotten-base": [("BIT_ROT", 1, 24, 25)],
    "gap": [("GAP", 1, 24, 25), ("GAP", 2, 24, 25), ("GAP", 3, 24, 25)],
}
EXPECTED: dict[str, Places] = {
    "digest": {**INDEXED, "bit-rot": [], "epoch": []},  # the digests were right when they were written
    "index": {
        **INDEXED,
        **CHECKPOINTED,
        "epoch-lie": IN_HEADERS["epoch-lie"],  # an entry points at a batch there, and then headers are read
    },
    "batches": {
        **INDEXED,
        **CHECKPOINTED,
        **IN_HEADERS,
        "rotten-crc": [("BIT_ROT", 3, 24, 25)],  # the digest index contradicts it, so its payload is read
        "bit-rot": [],
    },
    "deep": {
        **INDEXED,
        **CHECKPOINTED,
        **IN_HEADERS,
        "rotten-crc": [("BIT_ROT", 3, 24, 25)],
        "bit-rot": [("BIT_ROT", 2, 24, 25)],
    },
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return build_everything(tmp_path_factory.mktemp("brokers"))


@pytest.fixture(scope="module")
def audits(spark: SparkSession, cluster: Cluster) -> dict[str, Audit]:
    """By level."""
    return {level: audit(spark, cluster.directories, level=level) for level in LEVELS}


@pytest.fixture(scope="module")
def deep(audits: dict[str, Audit]) -> Audit:
    return audits["deep"]


def of_topic(result: Audit, topic: str) -> list[AuditFinding]:
    return [finding for finding in result.findings if finding.topic == topic]


def places(findings: list[AuditFinding]) -> list[tuple[Any, ...]]:
    return [(finding.kind, finding.wrong, finding.first, finding.last) for finding in findings]


@pytest.mark.parametrize(("level", "topic"), [(level, topic) for level in EXPECTED for topic in EXPECTED[level]])
def test_a_level_names_class_replica_and_offsets_of_what_it_sees(audits, level, topic):
    findings = of_topic(audits[level], topic)
    assert places(findings) == EXPECTED[level][topic], findings


def test_topics_that_nobody_has_written_to_are_consistent(spark, tmp_path):
    cluster = Cluster(tmp_path)
    for replica in (1, 2, 3):
        cluster.build(replica, "empty", batches=0, mark=0)
    for level in LEVELS:
        assert audit(spark, cluster.directories, level=level).verdict == CONSISTENT


def test_digest_level_says_what_to_do_without_digest_indexes(audits):
    findings = of_topic(audits["digest"], "gap")
    assert [(finding.kind, finding.wrong) for finding in findings] == [("UNREADABLE", n) for n in (1, 2, 3)], findings
    assert all("--level index" in finding.remedy for finding in findings)


def test_what_a_level_reads_is_told(audits):
    read = {level: result.bytes_read for level, result in audits.items()}
    assert read["deep"]["batches"] > 0.9 * sum(replica.size for replica in audits["deep"].replicas)
    assert 0 < read["digest"]["digests"] < read["index"]["indexes"] < read["batches"]["batches"]
    assert summary(audits["digest"])["bytes_read"] == read["digest"]


def test_a_wrong_length_is_bit_rot_from_that_batch_on(deep):
    findings = of_topic(deep, "rotten-length")
    assert len(findings) == 1, findings
    (finding,) = findings
    assert (finding.kind, finding.wrong, finding.first) == ("BIT_ROT", 3, 24), finding


@pytest.mark.parametrize("level", ["index", "batches", "deep"])
@pytest.mark.parametrize(
    ("topic", "replica", "suffix"),
    [("index-lie", 2, ".index"), ("time-lie", 3, ".timeindex"), ("digest-lie", 1, ".digest")],
)
def test_a_changed_index_entry_is_an_index_lie_of_that_file(audits, level, topic, replica, suffix):
    (finding,) = of_topic(audits[level], topic)
    assert (finding.kind, finding.wrong) == ("INDEX_LIE", replica), finding
    assert finding.evidence[0].file.endswith(suffix), finding
    assert finding.first is not None
    assert finding.last is not None
    assert 20 <= finding.first <= finding.last < 40, finding


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", ["healthy", "lag", "tail", "retention", "layout", "leftovers", "index-gone", "alone"])
def test_what_replicas_may_differ_in_is_no_finding(audits, level, topic):
    findings = of_topic(audits[level], topic)
    assert findings == []
    assert verdict(findings, compared=1) == CONSISTENT


@pytest.mark.parametrize("level", ["index", "batches", "deep"])
@pytest.mark.parametrize(("topic", "replica"), [("unreadable", 3), ("unreadable-end", 3), ("no-mark", 2)])
def test_what_cannot_be_read_or_known_is_inconclusive(audits, level, topic, replica):
    findings = of_topic(audits[level], topic)
    assert {(finding.kind, finding.wrong) for finding in findings} == {("UNREADABLE", replica)}, findings
    assert verdict(findings, compared=1) == INCONCLUSIVE


def test_every_finding_says_where_why_and_what_to_do(deep):
    assert deep.verdict == DIVERGED
    for finding in deep.findings:
        assert finding.why, finding
        assert finding.remedy, finding
        assert finding.evidence, finding
        assert all(evidence.file and evidence.seen for evidence in finding.evidence), finding


def test_evidence_shows_the_values_of_every_replica(deep):
    (finding,) = of_topic(deep, "value")
    assert [evidence.replica for evidence in finding.evidence] == [1, 2, 3]
    assert finding.evidence[0].seen == finding.evidence[1].seen != finding.evidence[2].seen
    assert "replicas 1 and 2 agree" in finding.why or "contradicts" in finding.why


def test_the_replica_with_the_older_epoch_is_the_one_that_kept_a_replaced_tail(spark, cluster):
    pair = {replica: cluster.directories[replica] for replica in (1, 2)}
    (finding,) = audit(spark, pair, ["divergent"], "index").findings
    assert (finding.wrong, finding.first) == (2, 48)
    assert "older leader epoch" in finding.why


def test_only_the_topics_asked_for_are_audited(spark, cluster):
    result = audit(spark, cluster.directories, ["healthy", "layout"], "index")
    assert {replica.topic for replica in result.replicas} == {"healthy", "layout"}
    assert (result.verdict, result.compared) == (CONSISTENT, 2)


def test_an_audit_writes_nothing_into_the_directories(spark, cluster):
    def files() -> dict[Path, int]:
        root = cluster.directories[1].parent
        return {path: path.stat().st_mtime_ns for path in root.rglob("*")}

    before = files()
    audit(spark, cluster.directories, ["healthy"], "deep")
    assert files() == before


def test_reports_hold_the_findings(spark, deep, tmp_path):
    write_findings(deep.findings, tmp_path / "findings.parquet")
    stored = spark.read.parquet(str(tmp_path / "findings.parquet")).collect()
    assert len(stored) == len(deep.findings)
    assert {row["class"] for row in stored} == {finding.kind for finding in deep.findings}
    told = summary(deep)
    assert told["verdict"] == DIVERGED
    assert sum(told["classes"].values()) == len(deep.findings)
    page = html_report(deep)
    for word in ("DIVERGED", "loss-segment-0", "COMMITTED_LOSS", "replica 3", "</html>"):
        assert word in page, f"{word} is not on the page"
    assert not re.search(r"https?://", page), "the page must not load anything"


def test_the_map_tells_lag_from_faults(deep):
    state_of = states(deep)
    assert state_of["lag", 0, 1] == state_of["healthy", 0, 2] == "ok"
    assert state_of["lag", 0, 2] == "lagging"
    assert (state_of["bit-rot", 0, 1], state_of["bit-rot", 0, 2]) == ("ok", "fault")
    assert state_of["unreadable-end", 0, 3] == "unreadable"


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
