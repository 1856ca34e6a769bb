"""A broker waits for all of the metadata, and for all of a change, however many messages it comes in. The newest that
it knew is noted on its disks (CT-24)."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import pytest
from structlog.testing import capture_logs

from replog.common.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from replog.common.backoff import Backoff
from replog.controller import acls
from replog.log.directories.identity import Position, read_position, write_position
from replog.log.errors import LogStorageError, NoRoom
from replog.metadata.image import MetadataImage
from replog.metadata.records import change_of
from replog.rpc.v1 import controller_pb2, metadata_pb2
from replog.server.broker.control import newest_metadata
from replog.server.broker.control.metadata_watch import MetadataWatch
from replog.server.broker.control.newest_metadata import NewestMetadata
from replog.server.broker.identity import Identity
from replog.server.controller import watchers
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually


class Watched:
    """An image that follows the controller, and whether each partition in it had its topic at every change."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self.image = MetadataImage()
        self.whole: list[bool] = []
        channel = cluster.channel(cluster.controller_address)
        self.watch = MetadataWatch(
            channel,
            Identity(9, b"w" * 16),
            self.image,
            NewestMetadata((), Backoff(random.Random(1)), lambda _: None),
            self._apply,
            Backoff(random.Random(1)),
        )

    async def _apply(self, records: Sequence[metadata_pb2.MetadataRecord], is_all: bool) -> None:
        for record in records:
            self.image.put(change_of(record))
        self.whole.append(all(tp.topic in self.image.topics for tp in self.image.partitions))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.watch.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def alter_retention(cluster: InProcessCluster, topic: str) -> None:
    request = controller_pb2.AlterTopicConfigsRequest(topic=topic, set={"retention.ms": "86400000"})
    await cluster.control("alter_topic_configs", request)


async def test_a_partition_is_not_heard_of_before_its_topic_whose_record_is_newer_since_it_was_altered(
    cluster, monkeypatch
):
    await cluster.begin(1, partitions=20)
    await alter_retention(cluster, "t")
    monkeypatch.setattr(watchers, "DELTA_RECORDS", 3)
    watched = Watched(cluster)
    async with watched.running():
        await watched.watch.wait_for_version(1, 5)
    assert watched.whole == [True]
    assert len(watched.image.partitions) == 20, "the first of several messages is not taken for all of the metadata"


async def test_changes_whose_second_half_comes_on_another_stream_are_applied_in_one_piece(cluster):
    await cluster.begin(1, partitions=2)
    await alter_retention(cluster, "t")
    watched = Watched(cluster)
    records, _ = cluster.controller.records.since(0)
    latest = records[-1].version
    half = [record for record in records if not record.key.startswith("topic/")]
    assert half[-1].version < latest
    first = controller_pb2.MetadataDelta(version=half[-1].version, records=half, latest_version=latest)
    watched.watch._take(first)
    assert watched.image.version == 0
    async with watched.running():
        await watched.watch.wait_for_version(latest, 5)
    assert watched.whole == [True]
    assert len(watched.image.partitions) == 2


@pytest.mark.parametrize("reset", [False, True])
async def test_half_of_a_change_from_a_stream_that_broke_is_forgotten_as_another_controller_may_answer_next(
    cluster, reset
):
    """Neither a record that only the first one had is taken over, nor what comes next for all that there is."""
    await cluster.begin(1, partitions=2)
    watched, newest = Watched(cluster), cluster.controller.state.image.version
    async with watched.running():
        await watched.watch.wait_for_version(newest, 5)
    topic = metadata_pb2.TopicRecord(topic="lost", topic_id=b"l" * 16)
    lost = metadata_pb2.MetadataRecord(key="topic/lost", version=newest + 1, topic=topic)
    half = controller_pb2.MetadataDelta(version=newest + 1, records=[lost], latest_version=newest + 2, reset=reset)
    watched.watch._take(half)
    await alter_retention(cluster, "t")
    async with watched.running():
        await eventually(lambda: watched.image.version >= cluster.controller.state.image.version)
    assert watched.image.topics == cluster.controller.state.image.topics
    assert list(watched.image.brokers) == [1]


async def test_a_broker_that_was_cut_off_takes_up_what_was_deleted_and_created_again_meanwhile(cluster, monkeypatch):
    """The new topic's partitions come before its record, in other messages, and the old topic is still known then."""
    broker = await cluster.begin(1, partitions=8, min_insync_replicas="1")
    tps = list(broker.manager.replicas.hosted)
    await asyncio.gather(*(cluster.produce(tp, batch(b"of the old topic")) for tp in tps))
    monkeypatch.setattr(watchers, "DELTA_RECORDS", 3)
    watch_task = broker._tasks[0]
    watch_task.remove_done_callback(broker._on_task_done)
    watch_task.cancel()
    await asyncio.gather(watch_task, return_exceptions=True)

    await cluster.delete_topic("t")
    await cluster.ask_for_topic("t", 8, 1)
    topic_id = cluster.controller.state.image.topics["t"].topic_id
    await alter_retention(cluster, "t")

    broker._spawn(broker._watch.run())
    await eventually(lambda: [hosted.topic_id for hosted in broker.manager.replicas.hosted.values()] == [topic_id] * 8)
    assert [hosted.log.log_end_offset for hosted in broker.manager.replicas.hosted.values()] == [0] * 8
    assert not broker.failed


async def forget_deletions(cluster: InProcessCluster) -> None:
    """At once; the controller does it every few seconds by itself."""
    state = cluster.controller.state
    await cluster.controller.decide(lambda _: state.collect_tombstones())
    assert not state._tombstones.up_to(state.image.version)


async def test_who_comes_back_from_before_forgotten_deletions_deletes_what_is_not_there_any_more(cluster):
    broker = await cluster.start_broker(1)
    for topic in ("kept", "gone", "again"):
        await cluster.create_topic(topic, partitions=3, replication_factor=1)
    watched = Watched(cluster)
    state = cluster.controller.state
    acl = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
    both = [acl, acl._replace(principal="User:bob")]
    await cluster.controller.decide(lambda _: acls.create_acls(state.image, both, random.Random(1)))
    async with watched.running():
        await watched.watch.wait_for_version(state.image.version, 60)
    assert (len(watched.image.partitions), list(watched.image.acls.ids)) == (9, both)
    await cluster.controller.decide(lambda _: acls.delete_acls(state.image, [AclFilter(*acl)]))
    for topic in ("gone", "again"):
        await cluster.delete_topic(topic)
    await cluster.create_topic("again", partitions=1, replication_factor=1)
    await eventually(lambda: state.sessions.applied_version(1) == state.image.version)
    await forget_deletions(cluster)  # of `gone`; `again` is there
    async with watched.running():
        await watched.watch.wait_for_version(state.image.version, 60)
        await eventually(lambda: watched.image.version == state.image.version)
    assert watched.image.partitions == state.image.partitions
    assert watched.image.topics == state.image.topics
    assert list(watched.image.acls.ids) == both[1:]
    assert sorted(map(str, broker.manager.replicas.hosted)) == ["again-0", "kept-0", "kept-1", "kept-2"]


async def test_what_was_heard_and_is_not_applied_yet_is_told_to_who_comes_next(cluster):
    """A controller on an older copy, which has gone on past it by itself: its changes must not be put upon these."""
    await cluster.begin(1)
    watched, controller = Watched(cluster), cluster.controller
    records, _ = controller.records.since(0)
    lost = metadata_pb2.MetadataRecord(key="topic/lost", version=records[-1].version + 3)
    heard = controller_pb2.MetadataDelta(version=lost.version, latest_version=lost.version, records=[*records, lost])
    watched.watch._take(heard)
    for _ in range(5):
        await controller.decide(lambda _: controller.state.begin_history())
    async with watched.running():
        await eventually(controller.is_behind.is_set)
    await cluster.crash_broker(1)  # this controller would not give it leave to stop


async def test_a_broker_is_up_to_date_only_once_nothing_newer_waits_to_be_applied(cluster):
    """Until then it may lead what it leads no more, and refuses no request that says so."""
    await cluster.begin(1)
    watched, go_on, heard = Watched(cluster), asyncio.Event(), list[int]()
    apply = watched.watch._apply

    async def slowly(records: Sequence[metadata_pb2.MetadataRecord], is_all: bool) -> None:
        await apply(records, is_all)
        await go_on.wait()

    watched.watch._apply, watched.watch._on_heard = slowly, lambda: heard.append(watched.image.version)
    async with watched.running():
        await eventually(lambda: watched.image.version > 0)
        await alter_retention(cluster, "t")
        await eventually(lambda: watched.watch.has_news)
        go_on.set()
        newest = cluster.controller.state.image.version
        await eventually(lambda: heard[-1:] == [newest], what=lambda: heard)
    assert set(heard) == {newest}


THEN, NOW = Position("c", b"h" * 16, 4), Position("c", b"h" * 16, 5)


@pytest.fixture
def directories(tmp_path):
    made = [tmp_path / "a", tmp_path / "b"]
    for directory in made:
        directory.mkdir()
        write_position(directory, THEN)
    return made


async def test_ct_24_what_finds_no_room_is_noted_once_there_is_some_and_not_before_it_is_gone_by(
    directories, monkeypatch
):
    known, tried = NewestMetadata(directories, Backoff(Random(1), base_ms=1), lambda _: None), []

    def written(directory, position):
        tried.append(known.position)
        if len(tried) <= 4:  # two rounds
            raise NoRoom(f"{100 - len(tried)} bytes are free")
        write_position(directory, position)

    monkeypatch.setattr(newest_metadata, "write_position", written)
    with capture_logs() as lines:
        await known.note(NOW)
    assert len(lines) == 1, "a disk that is full for an hour is one line"
    assert tried == [THEN] * 6, "it is not told before it is on the disks"
    assert [read_position(directory) for directory in directories] == [NOW, NOW]
    assert known.position == NOW


async def test_ct_24_one_directory_that_takes_it_is_enough_and_none_is_not(directories, monkeypatch):
    dead, failed = set(directories[:1]), []

    def written(directory, position):
        if directory in dead:
            raise LogStorageError(f"{directory} is dead", of_the_disk=True)
        write_position(directory, position)

    monkeypatch.setattr(newest_metadata, "write_position", written)
    known = NewestMetadata(directories, Backoff(Random(1)), failed.append)
    await known.note(NOW)
    assert (known.position, len(failed), read_position(directories[1])) == (NOW, 1, NOW)
    dead |= {*directories}
    with pytest.raises(LogStorageError):
        await known.note(NOW._replace(version=6))
    assert known.position == NOW
    dead.clear()
    await NewestMetadata(directories, Backoff(Random(1)), failed.append).note(NOW)
    assert read_position(directories[0]) == NOW, "otherwise a start without the other disk would know less"
