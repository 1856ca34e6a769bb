"""What `replog cluster describe` says of a healthy cluster, and of one that is not; what commands say that wait for a
topic; and what the controller mends while no broker runs."""

import asyncio
from dataclasses import replace

from typer.testing import CliRunner

from replog.cli.asking import not_deleted, not_led
from replog.cli.cluster import cluster_facts
from replog.cli.main import app
from replog.metadata.values import StandingAudit, Topic
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
        cluster.controller.state.image.audit = replace(equal, at_ms=1 << 60)  # 0.1.0 has stored what anybody said
        assert f"audit of {1 << 60} ms after 1970: CONSISTENT" in (await cluster_facts(admin)).summary()
    assert not facts.sound
    assert replace(facts, audit=None).sound
    assert facts.as_json()["audit"]["verified"] == [{"topic": "t", "partition": 0, "offset": 70}]
    assert facts.summary().endswith(
        "\naudit of 1970-01-01T00:01:01+00:00: DIVERGED in t-0 at level deep, 1 partitions; last proved equal "
        "1970-01-01T00:00:01+00:00"
    )


async def test_a_partition_that_was_seen_to_be_led_is_not_looked_at_again(cluster: InProcessCluster):
    await cluster.begin(2, partitions=2)
    led, first, second = set[tuple[int, int]](), TopicPartition("t", 0), TopicPartition("t", 1)
    leader = cluster.brokers[cluster.leader(first)]
    async with cluster.admin() as admin:
        there = leader.manager.replicas.hosted.pop(first)
        assert await not_led(admin, "t", led) == "1 of 2 partitions are led"
        leader.manager.replicas.hosted[first] = there
        assert not await not_led(admin, "t", led)
        leader.manager.replicas.hosted.pop(first)
        assert not await not_led(admin, "t", led)
        assert await not_led(admin, "t", {(0, 99), (1, cluster.leader(second))}) == "1 of 2 partitions are led"
        leader.manager.replicas.hosted[first] = there
        assert await not_led(admin, "unknown", set()) == "no broker knows it"


async def test_a_topic_that_is_deleted_is_waited_for_while_replicas_go(cluster: InProcessCluster):
    await cluster.begin(2, partitions=2)
    topic_id = cluster.controller.state.image.topics["t"].topic_id
    async with cluster.admin() as admin:
        assert await not_deleted(admin, "t", topic_id) == "brokers know it, and 4 replicas are left"
        assert not await not_deleted(admin, "t", b"of an earlier t.")
        await admin.delete_topic("t")
        assert not await not_deleted(admin, "t", topic_id)


async def test_topics_brokers_and_users_are_mended_while_no_broker_runs(cluster: InProcessCluster):
    await cluster.start_broker(1)
    for name in ("t", "u"):
        await cluster.create_topic(name, replication_factor=1, retention_ms="1000")
    await cluster.crash_broker(1)

    async def run(*words: str) -> str:
        command = [*words, "--bootstrap-controller", cluster.controller_address]
        done = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    image = cluster.controller.state.image
    assert "retention.ms=5" in await run("topic", "alter", "--topic", "t", "--config", "retention.ms=5")
    await run("topic", "alter", "--topic", "t", "--delete-config", "retention.ms")
    topic: Topic = image.topics["t"]
    assert dict(topic.configs) == {"min.insync.replicas": "1"}
    assert "deleted topic u" in await run("topic", "delete", "--topic", "u")
    assert list(image.topics) == ["t"]
    rate = "leader.replication.throttled.rate"
    assert f"{rate}=7" in await run("broker-config", "--broker", "1", "--config", f"{rate}=7")
    assert "producer_byte_rate=9" in await run("client-quota", "--config", "producer_byte_rate=9")
    assert "producer_byte_rate=9" in await run("client-quota")
    await cluster.start_broker(1)
    async with cluster.admin() as admin:
        assert await admin.list_topics() == ["t"]
