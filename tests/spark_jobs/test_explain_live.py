"""Findings of a running cluster are explained, and its saved audits checked, over Inspection. Real gRPC, no Spark."""

import asyncio

import pytest

from replog.topic import TopicPartition
from spark_jobs.audit.findings import AuditFinding, Evidence
from spark_jobs.audit.landmarks import list_replicas
from spark_jobs.audit.results import finding_record
from spark_jobs.audit.since import Saved, landmarks, take_over
from spark_jobs.explain_finding import explain
from spark_jobs.replicas.brokers import broker_stores
from tests.replog.server.broker.conftest import InProcessCluster, batch
from tests.replog.server.broker.conftest import cluster as running

__all__ = ["running"]

TP = TopicPartition("t", 0)
BATCHES = 12


@pytest.fixture
async def cluster(running: InProcessCluster) -> InProcessCluster:
    await running.start_broker(1)
    await running.create_topic("t", replication_factor=1, index_interval_bytes="150")
    for number in range(BATCHES):
        await running.produce(TP, batch(b"value %d" % number))
    running.log(1, TP).write_indexes()  # index entries are written some at a time (divergence 16)
    return running


async def test_a_finding_of_a_running_cluster_shows_what_its_broker_has(cluster):
    evidence = Evidence(1, "broker-1/t-0/00000000000000000000.index", 8, "this")
    report = {
        "findings": [finding_record(AuditFinding("INDEX_LIE", "t", 0, (1,), 5, 5, 1, "because", "do it", (evidence,)))],
        "where": {"bootstrap_servers": cluster.brokers[1].address},
    }
    shown = await asyncio.to_thread(explain, report, 1)
    (column,) = shown["headers"]
    assert column["note"] == ""
    assert (column["fields"]["baseOffset"], column["fields"]["isValid"]) == (5, True)
    (index,) = shown["indexes"]
    assert [entry["entry"] for entry in index["entries"] if entry["suspect"]] == [1]
    assert all(entry["log"].endswith(f"to {entry['offset']}") for entry in index["entries"]), index
    assert any(entry["covers"] for entry in shown["epochs"][0]["entries"]), shown["epochs"]


async def test_what_a_running_cluster_had_verified_fits_when_it_goes_on(cluster):
    stores = await asyncio.to_thread(broker_stores, cluster.brokers[1].address)
    listed = await asyncio.to_thread(list_replicas, stores, ["t"])
    saved = Saved("index", await asyncio.to_thread(landmarks, listed, {TP: 10}))
    mark = saved.partitions[TP].replicas[1]
    assert mark.last_batch is not None
    assert mark.last_batch[:2] == (9, 9)
    assert len(mark.topic_id) == 22
    await cluster.produce(TP, batch(b"more"))
    listed = await asyncio.to_thread(list_replicas, stores, ["t"])
    assert (await asyncio.to_thread(take_over, saved, "index", listed)).starts == {TP: 10}
    for store in stores:
        store.close()
