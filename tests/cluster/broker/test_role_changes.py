"""Metadata into roles, and what happens when that cannot be done or a broker is on its way out."""

import asyncio
import shutil
from dataclasses import replace

import pytest

from cluster.metadata_image import partition_to_record
from replog.errors import ErrorCode
from replog.rpc import methods
from replog.rpc.v1 import controller_pb2, metadata_pb2
from replog.topic import TopicPartition

from .conftest import CALL_S, InProcessCluster, batch, eventually

TP = TopicPartition("t", 0)


async def delete_topic(cluster: InProcessCluster, topic: str) -> None:
    request = controller_pb2.DeleteTopicRequest(topic=topic)
    await cluster.channel(cluster.controller_address).call(methods.Controller["delete_topic"], request, CALL_S)


async def test_a_metadata_change_that_cannot_be_applied_ends_the_broker_instead_of_being_forgotten(
    cluster: InProcessCluster,
) -> None:
    """No delta would bring the rest of it again: the broker would lead and follow by metadata of the past for ever."""
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    await cluster.produce(TP, batch(b"one"))
    shutil.rmtree(cluster.directory / "broker-2" / "t-0")
    await delete_topic(cluster, "t")
    await eventually(lambda: cluster.brokers[2].failed)
    assert not cluster.brokers[1].failed


async def test_nobody_leads_without_the_epoch_that_the_disk_would_not_take(cluster: InProcessCluster) -> None:
    """ST-13: a produce that comes before the broker stops is refused, and not appended in no epoch."""
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=2)
    follower = cluster.brokers[3 - cluster.leader(TP)]
    await eventually(lambda: TP in follower.manager.hosted)
    (follower.manager.hosted[TP].log.directory / "leader-epoch-checkpoint.tmp").mkdir()
    state = follower._image.partitions[TP]
    follower._image.partitions[TP] = replace(
        state, leader=follower.config.node_id, leader_epoch=state.leader_epoch + 1, partition_epoch=9
    )
    assert follower._roles is not None
    follower._roles.apply_image()
    assert follower.failed
    assert follower.manager.hosted[TP].leader is None
    assert follower.manager.leader(TP) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_broker_that_stops_starts_no_fetcher_any_more(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """§2.3 step 5: leaderships move while a broker lets go of its own, as when the whole cluster stops."""
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    leader = cluster.leader(TP)
    follower = cluster.brokers[next(iter({1, 2, 3} - {leader}))]
    stop_server = follower._server.stop

    async def stop_server_while_the_leader_changes(grace_s: float) -> None:
        await cluster.stop_broker(leader)
        await asyncio.sleep(0.2)
        await stop_server(grace_s)

    monkeypatch.setattr(follower._server, "stop", stop_server_while_the_leader_changes)
    await cluster.stop_broker(follower.config.node_id)
    assert cluster.leader(TP) not in (leader, follower.config.node_id)
    assert not follower._fetchers._fetchers
    assert not follower.failed


async def test_a_produce_that_waits_on_a_deleted_topic_is_not_acknowledged_by_one_of_the_same_name(
    cluster: InProcessCluster,
) -> None:
    """§2.3 step 2, PR-13: both may come in one delta, and the new topic starts with the same leader epoch."""
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=2)
    leader = cluster.brokers[cluster.leader(TP)]
    follower = cluster.brokers[3 - cluster.leader(TP)]
    follower._fetchers.stop(TP)
    waiting = asyncio.create_task(cluster.produce(TP, batch(b"of the first topic")))
    await eventually(lambda: leader.manager.hosted[TP].log.log_end_offset == 1)
    # the leader hears of the deletion and of the creation at once, as after a break of its metadata stream
    image, roles = leader._image, leader._roles
    assert roles is not None
    topic_record = metadata_pb2.MetadataRecord(
        key="topic/t", version=image.version + 1, topic=metadata_pb2.TopicRecord(topic="t", topic_id=b"2" * 16)
    )
    partition_record = metadata_pb2.MetadataRecord(
        key="partition/t/0",
        version=image.version + 2,
        partition=partition_to_record(TP, b"2" * 16, image.partitions[TP]),
    )
    delta = controller_pb2.MetadataDelta(records=[topic_record, partition_record])
    for record in delta.records:
        image.apply(record)
    roles.apply_delta(delta)
    log = leader.manager.hosted[TP].log
    log.append_as_leader(batch(b"of the second"), leader_epoch=0, now_ms=0)
    log.update_high_watermark(1)
    leader.manager.touched(TP, high_watermark_advanced=True)
    error, _, _ = await waiting
    assert error is ErrorCode.NOT_LEADER_OR_FOLLOWER
