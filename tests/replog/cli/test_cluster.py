"""What `replog cluster describe` says of a healthy cluster, and of one that is not."""

from dataclasses import replace

from replog.cli.cluster import cluster_facts
from replog.metadata.values import StandingAudit
from replog.release import VERSION
from replog.topic import TopicPartition
from tests.replog.client.conftest import cluster
from tests.replog.server.broker.conftest import InProcessCluster, eventually

__all__ = ["cluster"]


async def test_a_cluster_is_described_with_its_disks_and_its_controller(cluster: InProcessCluster):
    await cluster.begin(2, partitions=3)
    async with cluster.admin() as admin:
        facts = await cluster_facts(admin)
    image = cluster.controller.state.image
    assert facts.sound
    silent = [{**controller, "state": "silent"} for controller in facts.controllers]
    assert not replace(facts, controllers=silent).sound
    assert (facts.cluster_id, facts.faults) == (image.cluster_id, [])
    assert facts.summary().endswith(": 3 partitions, all in sync")
    assert facts.controllers == [{"controller": cluster.controller_address, "state": "active"}]
    assert [(b["broker"], b["state"], b["epoch"]) for b in facts.brokers] == [
        (number, "active", image.brokers[number].broker_epoch) for number in (1, 2)
    ]
    assert [broker["address"] for broker in facts.brokers] == [cluster.brokers[number].address for number in (1, 2)]
    assert {broker["version"] for broker in facts.brokers} == {VERSION}
    assert [broker["replicas"] for broker in facts.brokers] == [3, 3]
    assert sum(broker["leads"] for broker in facts.brokers) == 3
    assert [(d["broker"], d["log_dir"], d["error"], d["replicas"]) for d in facts.log_dirs] == [
        (number, str(cluster.directory / f"broker-{number}"), "NONE", 3) for number in (1, 2)
    ]
    assert all(0 < directory["usable_bytes"] < directory["total_bytes"] for directory in facts.log_dirs)
    assert facts.as_json().keys() >= {"cluster_id", "controllers", "brokers", "log_dirs", "partitions"}


async def test_a_broker_that_died_is_fenced_and_its_replicas_are_out_of_sync(cluster: InProcessCluster):
    await cluster.begin(2, partitions=3)
    await cluster.crash_broker(2)
    await eventually(lambda: cluster.brokers[1].manager.context.image.brokers[2].fenced)
    async with cluster.admin() as admin:
        facts = await cluster_facts(admin)
    assert not facts.sound
    assert [(b["state"], b["leads"], b["out_of_sync"]) for b in facts.brokers] == [("active", 3, 0), ("fenced", 0, 3)]
    assert facts.partitions == {"all": 3, "without_leader": 0, "under_min_isr": 3, "under_replicated": 3}
    assert facts.summary().endswith(": 3 partitions, 3 under min isr, 3 under replicated")
    assert [directory["broker"] for directory in facts.log_dirs] == [1], "nobody waits for one that is fenced"


async def test_what_an_audit_said_last_is_shown_and_a_divergence_is_a_problem(cluster: InProcessCluster):
    await cluster.begin(1)
    async with cluster.admin() as admin:
        assert (await cluster_facts(admin)).audit is None
        equal = StandingAudit("CONSISTENT", "deep", 1_000, ((TopicPartition("t", 0), 70),), 1, (), 0)
        await admin.report_audit(equal)
        await admin.report_audit(
            replace(equal, verdict="DIVERGED", at_ms=61_000, diverged=("t-0",), diverged_partitions=1)
        )
        facts = await cluster_facts(admin)
    assert not facts.sound
    assert replace(facts, audit=None).sound
    assert facts.as_json()["audit"]["verified"] == [{"topic": "t", "partition": 0, "offset": 70}]
    assert facts.summary().endswith(
        "\naudit of 1970-01-01T00:01:01+00:00: DIVERGED in t-0 at level deep, 1 partitions; last proved equal "
        "1970-01-01T00:00:01+00:00"
    )
