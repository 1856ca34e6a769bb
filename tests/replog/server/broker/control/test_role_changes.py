"""Metadata into roles, and what happens when that cannot be done or a broker is on its way out."""

import asyncio
import errno
import itertools
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replog.errors import ErrorCode
from replog.log.directories.changes import LogChange
from replog.log.directories.identity import read_position
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.records import record_of
from replog.metadata.values import PartitionState, Topic
from replog.rpc.v1 import metadata_pb2
from replog.server.broker.control.lifecycle import BrokerState
from replog.server.broker.control.replica_plan import Present, ReplicaPlan, plan_replica
from replog.server.broker.metrics import directory_metrics
from replog.server.work import SLICE
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import TP, batch, eventually

AGAIN = b"2" * 16  # the id of the topic that was made again


async def test_a_metadata_change_that_cannot_be_applied_ends_the_broker_instead_of_being_forgotten(
    cluster, monkeypatch
):
    """No delta would bring the rest of it again: the broker would lead and follow by metadata of the past for ever."""
    await cluster.begin(3)
    await cluster.produce(TP, batch(b"one"))
    doomed, real = cluster.directory / "broker-2" / "t-0", Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self == doomed:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    await cluster.delete_topic("t")
    await eventually(lambda: cluster.brokers[2].failed)
    assert not cluster.brokers[1].failed


async def test_nobody_leads_without_the_epoch_that_the_disk_would_not_take(cluster):
    """ST-13: a produce that comes then is refused, and not appended in no epoch."""
    await cluster.begin(2)
    follower = cluster.brokers[3 - cluster.leader(TP)]
    (follower.manager.replicas.hosted[TP].log.directory / "leader-epoch-checkpoint.tmp").mkdir()
    state = follower._image.partitions[TP]
    follower._image.partitions[TP] = replace(
        state, leader=follower.config.node_id, leader_epoch=state.leader_epoch + 1, partition_epoch=9
    )
    assert follower._roles is not None
    await follower._roles.apply_image()
    assert not follower.failed
    assert follower.manager.replicas.hosted[TP].leader is None
    assert follower.manager.replicas.leader(TP) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_which_metadata_say_so_is_noted_before_any_file_changes(cluster, monkeypatch):
    """CT-24: of an epoch that was begun here, and a crash then, a controller on an older copy would know nothing."""
    broker = await cluster.begin(1)
    noted = []
    steps = LogChange.steps

    def noting(change: LogChange) -> Any:
        noted.append((read_position(cluster.directory / "broker-1").version, broker._image.version))
        return steps(change)

    monkeypatch.setattr(LogChange, "steps", noting)
    await cluster.create_topic("u", partitions=1, replication_factor=1)
    await eventually(lambda: noted)
    durable, applied = noted[0]
    assert durable > applied


async def test_a_broker_that_stops_starts_no_fetcher_any_more(cluster, monkeypatch):
    """§2.3 step 5: leaderships move while a broker lets go of its own, as when the whole cluster stops."""
    await cluster.begin(3)
    leader = cluster.leader(TP)
    follower = cluster.brokers[next(iter({1, 2, 3} - {leader}))]
    stop_server = follower._listening.stop

    async def stop_server_while_the_leader_changes(grace_s: float) -> None:
        await cluster.stop_broker(leader)
        await asyncio.sleep(0.2)
        await stop_server(grace_s)

    monkeypatch.setattr(follower._listening, "stop", stop_server_while_the_leader_changes)
    await cluster.stop_broker(follower.config.node_id)
    assert cluster.leader(TP) not in (leader, follower.config.node_id)
    assert not follower._fetchers._fetchers
    assert not follower.failed


async def test_a_broker_that_hands_over_copies_no_more_of_what_it_is_out_of_sync_with(cluster):
    """§2.3 step 5: otherwise its leader would propose it again and again."""
    await cluster.begin(2)
    leader = cluster.leader(TP)
    follower = cluster.brokers[3 - leader]
    registered = follower._image.brokers[leader]
    assert follower._fetchers.is_fetching(TP, registered)
    follower._lifecycle.become(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
    await eventually(lambda: not follower._fetchers.is_fetching(TP, registered))


async def test_a_produce_that_waits_on_a_deleted_topic_is_not_acknowledged_by_one_of_the_same_name(cluster):
    """§2.3 step 2, PR-13: both may come in one delta, and the new topic starts with the same leader epoch."""
    await cluster.begin(2)
    leader = cluster.brokers[cluster.leader(TP)]
    follower = cluster.brokers[3 - cluster.leader(TP)]
    follower._fetchers.stop(TP)
    waiting = asyncio.create_task(cluster.produce(TP, batch(b"of the first topic")))
    await eventually(lambda: leader.manager.replicas.hosted[TP].log.log_end_offset == 1)
    # the leader hears of the deletion and of the creation at once, as after a break of its metadata stream
    await making_up(leader).apply(made_again(leader._image))
    log = leader.manager.replicas.hosted[TP].log
    log.append_as_leader(batch(b"of the second"), leader_epoch=0, now_ms=0)
    log.update_high_watermark(1)
    leader.manager.touched(TP, high_watermark_advanced=True)
    error, _, _ = await waiting
    assert error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_partition_of_an_earlier_topic_of_the_name_is_not_created_whatever_came_of_it_before(cluster):
    """CT-19: it changed, then the topic was deleted, and created again with fewer partitions; all came at once."""
    broker = await cluster.begin(1, partitions=2)
    image = broker._image
    late = Change("partition", TopicPartition("t", 2), image.partitions[TP], image.topics["t"].topic_id)
    await making_up(broker).apply(made_again(image, late))
    assert image.partitions.keys() == broker.manager.replicas.hosted.keys() == {TP}
    assert broker.manager.replicas.hosted[TP].topic_id == AGAIN
    assert sorted(path.name for path in (cluster.directory / "broker-1").glob("t-*") if path.suffix == "") == ["t-0"]


def made_again(image: MetadataImage, *before: Change) -> list[metadata_pb2.MetadataRecord]:
    """What comes when topic t was deleted and made again, with one partition, whose record may come first."""
    again = Change("partition", TP, image.partitions[TP], AGAIN), Change("topic", "t", Topic("t", AGAIN))
    return [record_of(change._replace(version=image.version + n)) for n, change in enumerate((*before, *again), 1)]


def making_up(broker):
    """Metadata that its controller did not decide: the broker must not tell it that it knows them."""
    broker._known._durable = 2**63
    broker.stop = broker._release  # leave would have to come from that controller
    return broker._roles


def strays(cluster, broker_id: int) -> list[Path]:
    return sorted((cluster.directory / f"broker-{broker_id}").glob("t-0.*-stray"))


async def test_ct_26_a_replica_of_another_topic_id_is_kept_as_a_stray(cluster):
    """CT-26: the topic may have been made again by a controller that did not know it, from an older copy."""
    broker = await cluster.begin(1)
    await cluster.produce(TP, batch(b"acknowledged"))
    before = (broker.manager.replicas.hosted[TP].log.directory / f"{0:020d}.log").read_bytes()
    await making_up(broker).apply(made_again(broker._image))
    assert broker.manager.replicas.hosted[TP].topic_id == AGAIN
    (stray,) = strays(cluster, 1)
    assert (stray / f"{0:020d}.log").read_bytes() == before != b""
    assert broker.logs is not None
    assert broker.logs.take_expired(2**60) == [], "nobody deletes it"


@pytest.mark.parametrize("is_all", [False, True])
async def test_ct_26_a_topic_that_is_not_there_is_deleted_only_if_its_deletion_was_heard_of(cluster, is_all):
    broker = await cluster.begin(1)
    await cluster.produce(TP, batch(b"acknowledged"))
    tombstone = metadata_pb2.MetadataRecord(key="topic/t", version=broker._image.version + 1)
    await making_up(broker).apply([tombstone], is_all=is_all)
    assert TP not in broker.manager.replicas.hosted
    assert len(strays(cluster, 1)) == is_all


async def test_ct_26_a_replica_that_is_placed_elsewhere_at_a_start_is_kept_as_a_stray(cluster):
    """CT-26: the broker may have become a replica after the copy from which the metadata were made."""
    await cluster.begin(2, brokers={"log_retention_check_interval_ms": 100}, retention_ms="-1")
    await cluster.produce(TP, batch(b"acknowledged"))
    broker = cluster.brokers[1]
    broker._image.partitions[TP] = replace(broker._image.partitions[TP], replicas=(2,), isr=(2,), leader=2)
    assert broker._roles is not None
    await broker._roles.apply_image()
    assert len(strays(cluster, 1)) == 1
    await eventually(lambda: list(broker.manager.context.traffic.strays.values()) == [1])
    assert 0 <= broker.manager.context.traffic.oldest_stray_s < 3600
    assert broker.logs is not None
    metrics = directory_metrics(broker.logs.directories, broker.manager.context.traffic)
    shown = {sample.name for family in metrics for sample in family.samples}
    assert {"replog_stray_replicas", "replog_oldest_stray_seconds"} <= shown


async def test_very_many_roles_are_taken_up_and_given_up_some_at_a_time(cluster):
    """Else heartbeats and other topics' producers would wait for thousands; of the topic clients see all or nothing."""
    broker = await cluster.start_broker(1)
    seen = [(0, 0)]

    async def watch() -> None:
        while True:
            seen.append((len(broker._image.partitions), len(broker.manager.replicas.hosted)))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await cluster.ask_for_topic("t", 3 * SLICE, 1)
    await eventually(lambda: len(broker.manager.replicas.hosted) == 3 * SLICE)
    await cluster.delete_topic("t")
    await eventually(lambda: not broker._image.partitions)
    watching.cancel()
    assert {partitions for partitions, _ in seen} == {0, 3 * SLICE}
    assert max(abs(after - before) for (_, before), (_, after) in itertools.pairwise(seen)) <= SLICE


async def test_no_role_change_waits_for_the_disk_on_the_event_loop(cluster, monkeypatch):
    """Created, led, led by another, deleted, made again: heartbeats wait on the same loop."""
    await cluster.start_brokers(1, 2, 3)
    sync, loop, paths = os.fsync, threading.get_ident(), list[str]()

    def recorded(fd: int) -> None:
        if threading.get_ident() == loop:
            paths.append(os.readlink(f"/proc/self/fd/{fd}"))
        sync(fd)

    monkeypatch.setattr(os, "fsync", recorded)
    await cluster.create_topic("t", partitions=6)
    await cluster.crash_broker(1)
    for tp in [TopicPartition("t", partition) for partition in range(6)]:
        await eventually(lambda tp=tp: cluster.leader(tp) != 1)  # type: ignore[misc]
        await cluster.led(tp)
        await cluster.produce(tp, batch(b"the first in its epoch"))
    await cluster.delete_topic("t")
    await cluster.create_topic("t", partitions=6, replication_factor=2)
    await eventually(lambda: all(len(broker.manager.replicas.hosted) == 6 for broker in cluster.brokers.values()))
    assert not paths


async def test_the_image_moves_with_the_roles_and_a_stop_in_between_leaves_nothing_to_recover(cluster, monkeypatch):
    """A slow disk: clients hear of a partition when it is led, and the broker does not wait for it on its loop."""
    broker = await cluster.start_broker(1)
    may_go_on, prepared, real = threading.Event(), threading.Event(), LogChange.steps

    def steps(change: LogChange) -> Iterator[None]:
        prepared.set()
        assert may_go_on.wait(60)
        yield from real(change)

    monkeypatch.setattr(LogChange, "steps", steps)
    await cluster.ask_for_topic("t", 2, 1)
    await eventually(prepared.is_set)
    assert TP not in broker._image.partitions
    assert not broker.manager.replicas.hosted
    stopping = asyncio.create_task(cluster.stop_broker(1))
    await asyncio.sleep(0.1)
    may_go_on.set()
    await stopping
    monkeypatch.undo()
    again = await cluster.start_broker(1)
    assert again.logs is not None
    assert all(directory.clean for directory in again.logs.directories)
    await cluster.led(TP)


TOPIC, OTHER = Topic("t", b"1" * 16), Topic("t", b"2" * 16)
LED, FOLLOWED = (PartitionState((1, 2, 3), (1, 2, 3), leader, 5, 9) for leader in (1, 2))
NOTHING = Present(None, False)
HERE = Present(TOPIC.topic_id, True)
DELETE, CREATE, REPLACE, LEAD, KEEP = ReplicaPlan


@pytest.mark.parametrize(
    ("state", "topic", "present", "expected"),
    [
        (FOLLOWED, TOPIC, NOTHING, CREATE),
        (LED, TOPIC, NOTHING, CREATE),
        (FOLLOWED, TOPIC, HERE, KEEP),
        (FOLLOWED, TOPIC, HERE._replace(led_epoch=4), KEEP),
        (LED, TOPIC, HERE, LEAD),
        (LED, TOPIC, HERE._replace(led_epoch=4), LEAD),
        (LED, TOPIC, HERE._replace(led_epoch=5), KEEP),
        (FOLLOWED, OTHER, HERE, REPLACE),
        (LED, OTHER, HERE._replace(is_hosted=False), REPLACE),
        (None, TOPIC, HERE, DELETE),
        (FOLLOWED, None, HERE, DELETE),
        (None, None, Present(TOPIC.topic_id, is_hosted=False), DELETE),
        (None, None, Present(None, is_hosted=True), DELETE),
        (None, None, NOTHING, KEEP),
        (FOLLOWED, None, NOTHING, KEEP),
        (FOLLOWED, TOPIC, Present(None, is_hosted=True), KEEP),
    ],
)
def test_what_becomes_of_a_replica(
    state: PartitionState | None, topic: Topic | None, present: Present, expected: ReplicaPlan
) -> None:
    """CT-17, CT-18, CT-19, EP-3."""
    assert plan_replica(1, state, topic, present) is expected


def test_a_replica_that_is_placed_elsewhere_goes_and_none_comes() -> None:
    """CT-17."""
    assert plan_replica(4, LED, TOPIC, HERE) is DELETE
    assert plan_replica(4, LED, TOPIC, NOTHING) is KEEP
    assert plan_replica(4, LED, OTHER, HERE) is DELETE
