"""Controllers for tests.

`Cluster` is driven by hand: every decision is numbered and applied at once, as the controller does after its commit.
`Running` is a controller on a real store.
"""

import random
from contextlib import asynccontextmanager, contextmanager

import pytest

from cluster.clock import SystemClock
from cluster.controller.cluster_state import ClusterState
from cluster.controller.controller import Controller
from cluster.controller.records import cluster_record, numbered
from cluster.controller.service import ControllerService
from cluster.controller.sqlite_store import SqliteStore
from replog.config import ControllerConfig
from replog.errors import ReplogError
from replog.metadata import PartitionState
from replog.rpc.channel import GrpcTransport
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.topic import TopicPartition

SESSION_MS = 9000


class Running:
    """A started controller, its service, and brokers made of requests."""

    def __init__(self, controller):
        self.controller = controller
        self.service = ControllerService(controller)
        self.store = controller._store

    @property
    def image(self):
        return self.controller.state.image

    async def register(self, broker_id, incarnation=b"a" * 16):
        request = pb.RegisterBrokerRequest(
            broker_id=broker_id, incarnation_id=incarnation, address=f"h{broker_id}:9092", previous_broker_epoch=-1
        )
        return (await self.service.register_broker(request)).broker_epoch

    async def heartbeat(self, broker_id, epoch):
        return await self.service.heartbeat(
            pb.HeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, metadata_version=self.image.version)
        )

    async def start_brokers(self, *broker_ids):
        for broker_id in broker_ids:
            await self.heartbeat(broker_id, await self.register(broker_id))

    async def create(self, topic, **fields):
        return await self.service.create_topic(pb.CreateTopicRequest(topic=topic, **fields))

    def watch(self, after=0):
        return self.service.watch_metadata(pb.WatchMetadataRequest(after_version=after))


class Cluster:
    """Brokers are numbers; `now_ms` moves only by hand."""

    def __init__(self, **settings):
        properties = {"metadata.log.dir": "/nowhere"} | {k.replace("_", "."): v for k, v in settings.items()}
        self.config = ControllerConfig.parse(properties, "test")
        self.state = ClusterState(self.config, random.Random(7))
        self.now_ms = 1_000_000
        self.incarnations = {}
        self.history = []
        self.state.load([], self.now_ms)
        self.apply([cluster_record("cluster-of-the-test")])

    @property
    def image(self):
        return self.state.image

    def apply(self, records):
        changes = [change for change in numbered(records, self.image.version) if change is not None]
        self.state.apply(changes, self.now_ms)
        made = [change.record for change in changes]
        self.state.records.put(made)
        self.history.extend(made)

    def do(self, decision):
        self.apply(decision.records)
        return decision.answer

    def register(self, broker_id, *, incarnation=None, previous=None, rack="", cluster_id="", address=None):
        """A new process of the broker, which by default was stopped cleanly before."""
        known = self.image.broker(broker_id)
        if incarnation is None:
            self.incarnations[broker_id] = self.incarnations.get(broker_id, 0) + 1
            incarnation = broker_id.to_bytes(8, "big") + self.incarnations[broker_id].to_bytes(8, "big")
        if previous is None:
            previous = known.broker_epoch if known else -1
        request = pb.RegisterBrokerRequest(
            cluster_id=cluster_id,
            broker_id=broker_id,
            incarnation_id=incarnation,
            address=address or f"host{broker_id}:9092",
            rack=rack,
            previous_broker_epoch=previous,
        )
        return self.do(self.state.register_broker(request, self.now_ms))

    def heartbeat(self, broker_id, *, epoch=None, version=None, fence=False, shutdown=False):
        request = pb.HeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].broker_epoch if epoch is None else epoch,
            metadata_version=self.image.version if version is None else version,
            want_fence=fence,
            want_shutdown=shutdown,
        )
        answer = self.do(self.state.heartbeat(request, self.now_ms))
        if answer.should_shutdown:
            self.state.let_go(broker_id)
        return answer

    def start(self, *broker_ids, racks=None):
        for broker_id in broker_ids:
            self.register(broker_id, rack=(racks or {}).get(broker_id, ""))
            assert not self.heartbeat(broker_id).is_fenced
        return self

    def expire(self, *broker_ids):
        """Nobody hears of these brokers for a session; the others are alive."""
        self.now_ms += SESSION_MS
        for broker_id, broker in self.image.brokers.items():
            if broker_id not in broker_ids and not broker.fenced:
                self.heartbeat(broker_id)
        fenced = []
        while (broker_id := self.do(self.state.fence_next_expired(self.now_ms))) is not None:
            fenced.append(broker_id)
        assert sorted(fenced) == sorted(broker_ids)
        return fenced

    def come_back(self, broker_id, *, clean):
        """The broker's new process, up to unfenced."""
        known = self.image.brokers[broker_id]
        self.register(broker_id, previous=known.broker_epoch if clean else -1)
        self.heartbeat(broker_id)

    def create(self, topic, **fields):
        return self.do(self.state.create_topic(pb.CreateTopicRequest(topic=topic, **fields)))

    def assigned(self, topic, *replicas, **fields):
        """A topic whose partitions have exactly these replicas."""
        return self.create(topic, assignment=[pb.ReplicaAssignment(broker_ids=r) for r in replicas], **fields)

    def partition(self, topic="t", partition=0) -> PartitionState:
        return self.image.partitions[TopicPartition(topic, partition)]

    def item(self, isr, *, topic="t", partition=0, **fields):
        """A proposal as the current leader would make it, but for `fields`."""
        state = self.image.partitions.get(TopicPartition(topic, partition))
        known = self.image.topics.get(topic)
        values = {
            "topic": topic,
            "topic_id": known.topic_id if known else b"",
            "partition": partition,
            "leader_epoch": state.leader_epoch if state else 0,
            "partition_epoch": state.partition_epoch if state else 0,
            "new_isr": [
                pb.IsrMember(broker_id=b, broker_epoch=self.image.brokers[b].broker_epoch)
                if isinstance(b, int)
                else pb.IsrMember(broker_id=b[0], broker_epoch=b[1])
                for b in isr
            ],
            "recovery_state": metadata_pb2.RECOVERED,
        }
        return pb.AlterPartitionItem(**(values | fields))

    def alter(self, sender, *items, epoch=None, present=()):
        epoch = self.image.brokers[sender].broker_epoch if epoch is None else epoch
        return self.do(self.state.alter_partition(sender, epoch, items, frozenset(present), self.now_ms))


@pytest.fixture
def cluster():
    """No brokers yet."""
    return Cluster()


@pytest.fixture
def make_cluster():
    return Cluster


@pytest.fixture
def three():
    """Brokers 11, 12, 13, unfenced, and topic t with one partition on them, led by 11."""
    cluster = Cluster().start(11, 12, 13)
    cluster.assigned("t", [11, 12, 13])
    return cluster


@pytest.fixture
def running(tmp_path):
    """`async with running(**settings) as r:`; the same store every time."""

    @asynccontextmanager
    async def start(**settings):
        properties = {"metadata.log.dir": str(tmp_path)} | {k.replace("_", "."): v for k, v in settings.items()}
        config = ControllerConfig.parse(properties, "test")
        controller = Controller(config, SqliteStore(tmp_path), GrpcTransport(), SystemClock(), random.Random(3))
        try:
            await controller.start()
            yield Running(controller)
        finally:
            await controller.stop()

    return start


@pytest.fixture
def refused():
    """`with refused(code, *words):` something raises that code, and its message has the words."""

    @contextmanager
    def check(code, *words):
        with pytest.raises(ReplogError) as caught:
            yield caught
        assert caught.value.code is code, str(caught.value)
        for word in words:
            assert word in caught.value.message

    return check
