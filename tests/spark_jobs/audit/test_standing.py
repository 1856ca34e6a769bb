"""What an audit that goes on tells the cluster, and how often."""

import asyncio
from dataclasses import replace

from replog.local_cluster.ports import free_port
from replog.metadata.values import StandingAudit
from replog.rpc.limits import MAX_VERIFIED
from replog.topic import TopicPartition
from spark_jobs.audit import follow as module
from spark_jobs.audit.findings import CONSISTENT, DIVERGED
from spark_jobs.audit.follow import Reporter, standing
from spark_jobs.audit.since import Saved, SavedPartition
from tests.replog.client.conftest import cluster
from tests.replog.server.broker.conftest import InProcessCluster

__all__ = ["cluster"]

EQUAL = StandingAudit(CONSISTENT, "deep", 5_000, ((TopicPartition("t", 0), 70),), 1, (), 0)


def test_of_many_partitions_the_first_are_named_and_all_are_counted():
    saved = Saved("deep", {TopicPartition("t", number): SavedPartition(number, {}) for number in reversed(range(1500))})
    told = standing(CONSISTENT, "deep", 5, saved, [])
    assert (told.partitions, len(told.verified), told.verified[2]) == (1500, MAX_VERIFIED, (TopicPartition("t", 2), 2))
    assert standing(CONSISTENT, "deep", 5, None, []).verified == ()


async def test_news_are_reported_at_once_and_the_rest_seldom(cluster: InProcessCluster, monkeypatch):
    await cluster.begin(1)
    report = Reporter(cluster.brokers[1].address)

    async def known_after(audit: StandingAudit) -> StandingAudit | None:
        await asyncio.to_thread(report, audit)
        return cluster.controller.state.image.audit

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
