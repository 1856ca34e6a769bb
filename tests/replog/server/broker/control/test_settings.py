"""Settings of topics and brokers that change while everything runs."""

from dataclasses import replace

import pytest
import structlog

from replog.config.processes import DEFAULT_USER
from replog.config.topic import TopicConfig
from replog.controller.decision import Decision
from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.values import PartitionState, Topic
from replog.server.broker.control import odd_settings
from replog.server.broker.control.role_changes import CONTRADICTION
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import SESSION_MS, TP, InProcessCluster, batch, eventually


async def test_a_lower_minimum_commits_at_once_what_waited_for_it(cluster):
    """HW-2: the record was not readable while too few were in sync; no append and no fetch is needed any more."""
    await cluster.begin(2)
    leader = cluster.leader(TP)
    await cluster.crash_broker(3 - leader)
    await eventually(lambda: cluster.isr(TP) == {leader})
    assert await cluster.produce(TP, batch(b"one"), acks=1) == (ErrorCode.NONE, 0, "")
    assert cluster.log(leader, TP).high_watermark == 0
    async with cluster.admin() as admin:
        assert await admin.alter_topic_configs("t", {"min.insync.replicas": "1"}) == {"min.insync.replicas": "1"}
    assert cluster.log(leader, TP).high_watermark == 1
    assert cluster.controller.state.image.partitions[TP].elr == ()
    assert await cluster.produce(TP, batch(b"two")) == (ErrorCode.NONE, 1, "")


async def test_every_replica_goes_by_the_new_settings_and_those_not_named_stay(cluster):
    await cluster.begin(2, retention_ms="1000", flush_messages="5")
    async with cluster.admin() as admin:
        altered = await admin.alter_topic_configs(
            "t", {"segment.bytes": "2048", "max.message.bytes": "500"}, ["flush.messages"]
        )
        assert (await admin.describe_topic("t")).configs == altered
    logs = [cluster.log(broker_id, TP) for broker_id in (1, 2)]
    await eventually(lambda: all(log.config.segment_bytes == 2048 for log in logs))
    assert {log.config.retention_ms for log in logs} == {1000}
    assert {log.config.flush_messages for log in logs} == {2**63 - 1}
    error, _, message = await cluster.produce(TP, batch(b"x" * 600))
    assert (error, "max.message.bytes=500" in message) == (ErrorCode.MESSAGE_TOO_LARGE, True)
    for number in range(9):
        assert await cluster.produce(TP, batch(b"x" * 400)) == (ErrorCode.NONE, number, "")
    assert [[segment.base_offset for segment in log.segments] for log in logs] == [[0, 4, 8]] * 2


ODD = {"min_insync_replicas": "1", "retention.ms": "1h", "later.setting": "x", "max.message.bytes": "2000.0"}


def _leads_two(cluster: InProcessCluster) -> bool:
    """Whether the leader itself has heard that both replicas are in sync."""
    hosted = cluster.brokers[cluster.leader(TP)].manager.replicas.hosted.get(TP)
    return hosted is not None and hosted.leader is not None and set(hosted.leader.state.isr) == {1, 2}


async def test_no_setting_that_is_stored_stops_a_broker_while_it_runs_or_when_it_starts(cluster):
    """As 0.1.0, or a later release, stored them. Each is told, shown, and can be deleted."""
    await cluster.begin(2)
    stored = cluster.controller.state.image.topics["t"]
    odd = replace(stored, configs=ODD | dict(stored.configs))
    changes = [
        Change("topic", "t", odd),
        Change("broker_config", 1, {"leader_replication_throttled_rate": "5000", "follower.rate": "fast"}),
        Change("client_quota", DEFAULT_USER, {"producer_byte_rate": "10MB", "consumer_byte_rate": "5000000.0"}),
    ]
    with structlog.testing.capture_logs() as told:
        await cluster.controller.decide(lambda _: Decision(changes, None))
        await eventually(lambda: cluster.brokers[1].manager.replicas.sending.listed.rate == 5000)
        await eventually(lambda: _leads_two(cluster))
        assert await cluster.produce(TP, batch(b"one")) == (ErrorCode.NONE, 0, "")
        await cluster.restart_all()
        await cluster.led(TP)
        await eventually(lambda: _leads_two(cluster))
        assert await cluster.produce(TP, batch(b"two")) == (ErrorCode.NONE, 1, "")
    named = {str(row) for each in told if (row := each.get("topic") or each.get("broker_config")) is not None}
    assert named == {"t", "1"}, told
    async with cluster.admin() as admin:
        configs = (await admin.describe_topic("t")).configs
        assert (configs["later.setting"], configs["max.message.bytes"]) == ("x", "2000")
        mended = await admin.alter_topic_configs("t", {}, ["later.setting", "retention.ms", "max.message.bytes"])
        assert mended == {"min.insync.replicas": "2"}
        assert await admin.alter_broker_configs(1, {}, ["leader_replication_throttled_rate", "follower.rate"]) == {}
    assert {cluster.log(broker_id, TP).config for broker_id in (1, 2)} == {TopicConfig()}


async def test_a_broker_passes_over_what_only_a_later_release_knows_while_it_runs_and_when_it_starts(cluster):
    """docs/operations.md. It is told once."""
    odd_settings._log_kind.cache_clear()
    await cluster.begin(1, min_insync_replicas="1")
    unknown = [Change("delegation-token/7", None, None), Change("delegation-token/8", None, None)]
    with structlog.testing.capture_logs() as told:
        await cluster.controller.decide(lambda _: Decision(unknown, None))
        version = cluster.controller.state.image.version
        await cluster.start_broker(2)
        await eventually(lambda: all(broker._image.version > version for broker in cluster.brokers.values()))
        assert await cluster.produce(TP, batch(b"one")) == (ErrorCode.NONE, 0, "")
    assert [each["kind"] for each in told if "a later release" in each["event"]] == ["delegation-token"]


async def test_a_partition_without_its_topic_stops_no_broker_while_it_runs_or_when_it_starts(cluster):
    """As a damaged store has it."""
    await cluster.begin(2)
    orphan = Change("partition", TopicPartition("nobody", 0), cluster.controller.state.image.partitions[TP], b"n" * 16)
    await cluster.controller.decide(lambda _: Decision([orphan], None))
    version = cluster.controller.state.image.version
    await eventually(lambda: all(broker._image.version >= version for broker in cluster.brokers.values()))
    cluster.controller.state.image._leave("nobody", None)  # in the records that brokers get it stays
    follower = 3 - cluster.leader(TP)
    await cluster.crash_broker(follower)
    await cluster.start_broker(follower)
    await eventually(lambda: follower in cluster.brokers and cluster.isr(TP) == {1, 2})
    assert not any(broker.failed for broker in cluster.brokers.values())


async def test_a_broker_beats_often_enough_for_a_short_session(cluster):
    """With the controller's session shorter than `broker.heartbeat.interval.ms` it was fenced again and again."""
    with structlog.testing.capture_logs() as told:
        broker = await cluster.start_broker(1, broker_heartbeat_interval_ms=60_000)
    assert broker._lifecycle.standing.interval_ms == SESSION_MS // 3
    assert [each["session_ms"] for each in told if "session is short" in each["event"]] == [SESSION_MS]


@pytest.mark.parametrize(
    "damage",
    [lambda state: {"isr": (3 - state.leader,)}, lambda state: {"leader_epoch": state.leader_epoch - 1}],
    ids=["its leader is out of sync", "its epoch falls"],
)
async def test_no_record_of_a_partition_that_is_stored_stops_a_broker_and_an_election_mends_it(cluster, damage):
    """As a damaged store, or another program, has them. Roles assert what no controller of ours would write."""
    await cluster.begin(2)
    leader, stored = cluster.leader(TP), cluster.controller.state.image.partitions[TP]
    topic_id = cluster.controller.state.image.topics["t"].topic_id
    wrong = replace(stored, partition_epoch=stored.partition_epoch + 1, **damage(stored))
    with structlog.testing.capture_logs() as logs:
        await cluster.controller.decide(lambda _: Decision([Change("partition", TP, wrong, topic_id)], None))
        await eventually(lambda: len([each for each in logs if each["event"] == CONTRADICTION]) == 2)
    assert not any(broker.failed for broker in cluster.brokers.values()), logs
    await cluster.crash_broker(leader)
    await cluster.start_broker(leader)
    await cluster.led(TP)
    await eventually(lambda: _leads_two(cluster))
    assert await cluster.produce(TP, batch(b"one")) == (ErrorCode.NONE, 0, "")


async def test_no_file_follows_from_a_new_partition_whose_record_contradicts_itself(cluster):
    """Its leader would begin a log with a negative epoch, which no cache of epochs takes."""
    await cluster.begin(2)
    wrong, topic = PartitionState((1, 2), (1, 2), leader=1, leader_epoch=-1, partition_epoch=0), Topic("u", b"u" * 16)
    changes = [Change("topic", "u", topic), Change("partition", TopicPartition("u", 0), wrong, topic.topic_id)]
    with structlog.testing.capture_logs() as logs:
        await cluster.controller.decide(lambda _: Decision(changes, None))
        await eventually(lambda: len([each for each in logs if each["event"] == CONTRADICTION]) == 2)
    assert not any(broker.failed for broker in cluster.brokers.values()), logs
    assert not list(cluster.directory.glob("*/u-0"))
    assert await cluster.produce(TP, batch(b"one")) == (ErrorCode.NONE, 0, "")
