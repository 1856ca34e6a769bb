"""Audits that go on from others, on directories that grow between them; killed and started again. What they tell the
cluster, and how often."""

import asyncio
import json
from dataclasses import replace
from functools import partial

import pytest

from replog.local_cluster.ports import free_port
from replog.log.formats.batch import HEADER_SIZE
from replog.metadata.values import StandingAudit
from replog.rpc.limits import MAX_VERIFIED
from replog.topic import TopicPartition
from spark_jobs.audit import follow as module
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED
from spark_jobs.audit.follow import STATE, Follower, FollowState, Reporter, Round, read_state, standing
from spark_jobs.audit.report import summary
from spark_jobs.audit.since import BadSaved, Saved, SavedPartition
from tests.replog.client.conftest import cluster as running
from tests.replog.server.broker.conftest import InProcessCluster
from tests.spark_jobs.log_directories import BATCHES, END, batch

__all__ = ["running"]

ORDERS = TopicPartition("orders", 0)
EQUAL = StandingAudit(CONSISTENT, "deep", 5_000, ((TopicPartition("t", 0), 70),), 1, (), 0)


def wrong_in_3(replica: int, number: int) -> bytes:
    return batch(number, b"wrong" if replica == 3 else b"value")


def verified_to(saved: Saved | None) -> int:
    assert saved is not None
    return saved.partitions[ORDERS].verified_to


@pytest.mark.parametrize("level", ["deep", "index", "digest"])
def test_an_audit_since_another_compares_and_reads_what_is_new(spark, cluster, level):
    first = audit(spark, cluster.directories, level=level, save=True)
    assert (first.verdict, verified_to(first.saved)) == (CONSISTENT, END), first.findings
    cluster.extend("orders", BATCHES, 40)
    second = audit(spark, cluster.directories, level=level, since=first.saved, save=True)
    assert (second.verdict, verified_to(second.saved)) == (CONSISTENT, 80), second.findings
    assert second.taken is not None
    assert second.taken.starts == {ORDERS: END}
    assert second.taken.whole == {}
    assert summary(second)["since"] == ["orders-0: compared from offset 60 on"]
    if level != "digest":
        stage = "batches" if level == "deep" else "indexes"
        assert second.bytes_read[stage] < first.bytes_read[stage], (first.bytes_read, second.bytes_read)
    cluster.extend("orders", 40, 45, wrong_in_3)
    third = audit(spark, cluster.directories, level=level, since=second.saved, save=True)
    assert [(f.kind, f.wrong, f.first, f.last) for f in third.findings] == [("VALUE_MISMATCH", 3, 80, 89)]
    assert verified_to(third.saved) == 80, "a partition with a finding keeps what was verified before"


def test_what_was_verified_is_not_read_again_unless_it_does_not_fit(spark, cluster):
    first = audit(spark, cluster.directories, level="deep", save=True)
    cluster.patch(2, "orders", 24, HEADER_SIZE + 5, b"\xff")
    assert audit(spark, cluster.directories, level="deep", since=first.saved).verdict == CONSISTENT
    cluster.truncate(1, "orders", 50)
    again = audit(spark, cluster.directories, level="deep", since=first.saved)
    assert again.taken is not None
    assert again.taken.whole == {ORDERS: "replica 1 ends below 60, or was compacted there"}
    assert {(f.kind, f.wrong) for f in again.findings} == {("BIT_ROT", 2), ("COMMITTED_LOSS", 1)}


def test_rounds_tell_each_finding_once_until_it_is_repaired_and_one_that_was_cut_off_is_done_again(
    spark, cluster, tmp_path
):
    reported: list[Round] = []
    reports: list[StandingAudit] = []
    made = partial(Follower, spark, cluster.directories, [], "deep", tmp_path, reported.append, report=reports.append)
    follower = made()
    follower.round()
    cluster.extend("orders", BATCHES, 35, wrong_in_3)
    before = (tmp_path / STATE).read_bytes()
    follower.round()
    (tmp_path / STATE).write_bytes(before)  # its findings were written, and then it was killed
    follower = made()
    follower.round()
    follower.round()
    assert [(r.number, r.verdict, r.offsets, len(r.new), r.known) for r in reported] == [
        (0, CONSISTENT, 60, 0, 0),
        (1, DIVERGED, 10, 1, 0),
        (1, DIVERGED, 10, 1, 0),
        (2, DIVERGED, 10, 0, 1),
    ], reported
    told = json.loads(json.dumps(reported[1].as_json()))
    assert (told["round"], told["verdict"], told["offsets"], told["error"]) == (1, DIVERGED, 10, None), told
    assert [(f["class"], f["first_offset"]) for f in told["new_findings"]] == [("VALUE_MISMATCH", 60)]
    assert verified_to(read_state(tmp_path).saved) == 60
    table = spark.read.parquet(str(tmp_path / "findings")).collect()
    assert [(row["class"], row["wrong_replica"], row["first_offset"], row["round"]) for row in table] == [
        ("VALUE_MISMATCH", 3, 60, 1)
    ]
    assert follower.verdict == DIVERGED
    follower.until_diverged = True
    follower.run(0.5)
    assert len(reported) == 5, "it ends at the first round that is diverged"
    assert [(r.verdict, r.diverged, dict(r.verified)) for r in reports[:2]] == [
        (CONSISTENT, (), {ORDERS: 60}),
        (DIVERGED, ("orders-0",), {ORDERS: 60}),
    ], reports


def test_a_checkpoint_directory_without_its_state_is_refused(tmp_path):
    (tmp_path / "findings").mkdir()
    with pytest.raises(BadSaved, match=r"move .* aside to verify everything again"):
        read_state(tmp_path)
    assert read_state(tmp_path / "new") == FollowState()
    (tmp_path / "verified.json").write_text("{}")
    with pytest.raises(BadSaved, match=r"move .* aside"):
        read_state(tmp_path)


def test_of_many_partitions_the_first_are_named_and_all_are_counted():
    saved = Saved("deep", {TopicPartition("t", number): SavedPartition(number, {}) for number in reversed(range(1500))})
    told = standing(CONSISTENT, "deep", 5, saved, [])
    assert (told.partitions, len(told.verified), told.verified[2]) == (1500, MAX_VERIFIED, (TopicPartition("t", 2), 2))
    assert standing(CONSISTENT, "deep", 5, None, []).verified == ()


async def test_news_are_reported_at_once_and_the_rest_seldom(running: InProcessCluster, monkeypatch):
    await running.begin(1)
    report = Reporter(running.brokers[1].address)

    async def known_after(audit: StandingAudit) -> StandingAudit | None:
        await asyncio.to_thread(report, audit)
        return running.controller.state.image.audit

    first = replace(EQUAL, consistent_at_ms=5_000)
    assert await known_after(EQUAL) == first
    further = replace(EQUAL, at_ms=6_000, verified=((TopicPartition("t", 0), 80),))
    assert await known_after(further) == first, "not yet"
    diverged = replace(further, verdict=DIVERGED, at_ms=7_000, diverged=("t-0",), diverged_partitions=1)
    assert await known_after(diverged) == replace(diverged, consistent_at_ms=5_000)
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    later = replace(diverged, at_ms=8_000)
    assert await known_after(later) == replace(later, consistent_at_ms=5_000)


def test_a_report_that_fails_is_told_once_and_the_audit_goes_on(capsys, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_MS", 200)
    report = Reporter(f"127.0.0.1:{free_port([])}")
    report(EQUAL)
    report(EQUAL)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert "the verdict is not reported to 127.0.0.1:" in lines[0]
