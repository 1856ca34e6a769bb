"""Controllers for tests.

`Cluster` is driven by hand: every decision is numbered and applied at once, as the controller does after its commit.
`Running` is a controller on a real store."""

import asyncio
import itertools
import random
import sqlite3
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import pytest

from replog.config.processes import ControllerConfig
from replog.controller.alter_partition import Proposal
from replog.controller.broker_lifecycle import Heartbeat
from replog.controller.cluster_state import ClusterState
from replog.controller.decision import numbered
from replog.controller.evidence import Report
from replog.controller.registration import Registration
from replog.controller.topics import NewTopic
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.image import Batch
from replog.metadata.log_ends import LogEnd
from replog.metadata.values import Claim, PartitionState
from replog.rpc.peer import anonymous, handling
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.clock import SystemClock
from replog.server.controller.active_controller import ActiveController
from replog.server.controller.formatting import format_cluster, is_formatted
from replog.server.controller.service import ControllerService
from replog.server.controller.sqlite_store import SqliteStore, StoreInThread
from replog.topic import TopicPartition

SESSION_MS = 9000


class Running:
    """A started controller, its service, and brokers made of requests."""

    def __init__(self, controller):
        self.controller = controller
        self.service = ControllerService(controller)
        self.store = controller._store.blocking
        handling(anonymous("127.0.0.1"))  # calls of the service have no transport here

    @property
    def image(self):
        return self.controller.state.image

    def epoch(self, broker_id):
        return self.image.brokers[broker_id].broker_epoch

    def claim(self, broker_id):
        """The fields by which the controller knows the broker's process."""
        known = self.image.brokers[broker_id]
        return {"broker_id": broker_id, "broker_epoch": known.broker_epoch, "incarnation_id": known.incarnation_id}

    def partition(self, topic="t", partition=0) -> PartitionState:
        return self.image.partitions[TopicPartition(topic, partition)]

    async def register(self, broker_id, incarnation=b"a" * 16, address=""):
        request = pb.RegisterBrokerRequest(
            broker_id=broker_id,
            incarnation_id=incarnation,
            address=address or f"h{broker_id}:9092",
            previous_broker_epoch=-1,
        )
        return (await self.service.register_broker(request)).broker_epoch

    async def heartbeat(self, *broker_ids, **wishes):
        """The answer to the last of them."""
        for broker_id in broker_ids:
            request = pb.HeartbeatRequest(metadata_version=self.image.version, **(self.claim(broker_id) | wishes))
            answer = await self.service.heartbeat(request)
        return answer

    async def start_brokers(self, *broker_ids):
        for broker_id in broker_ids:
            await self.register(broker_id)
            await self.heartbeat(broker_id)

    async def create(self, topic, **fields):
        return await self.service.create_topic(pb.CreateTopicRequest(topic=topic, **fields))

    async def assigned(self, topic, *replicas):
        """A topic whose partitions have exactly these replicas."""
        return await self.create(topic, assignment=[pb.ReplicaAssignment(broker_ids=ids) for ids in replicas])

    async def delete(self, topic):
        return await self.service.delete_topic(pb.DeleteTopicRequest(topic=topic))

    async def propose(self, isr, topic="t", partition=0, known=None, **fields):
        """As the current leader would, except `fields` of the item. `known`: the position that it says to know."""
        state = self.partition(topic, partition)
        item = pb.AlterPartitionItem(
            topic=topic,
            partition=partition,
            topic_id=self.image.topics[topic].topic_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=[pb.IsrMember(broker_id=b, broker_epoch=self.epoch(b)) for b in isr],
            **fields,
        )
        request = pb.AlterPartitionRequest(partitions=[item], known=known, **self.claim(state.leader))
        return ErrorCode((await self.service.alter_partition(request)).partitions[0].error_code)

    @asynccontextmanager
    async def watch(self, after=0):
        """A function that waits for the next delta."""
        watch = self.service.watch_metadata(pb.WatchMetadataRequest(after_version=after))
        try:
            yield lambda: asyncio.wait_for(anext(watch), 60)
        finally:
            await watch.aclose()

    @contextmanager
    def locked_store(self):
        """Another process holds the lock of the database."""
        other = sqlite3.connect(self.store.path, isolation_level=None)
        self.store._db.execute("PRAGMA busy_timeout = 10")
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
        other.close()


class Cluster:
    """Brokers are numbers; `now_ms` moves only by hand."""

    def __init__(self, **settings):
        properties = {"metadata.log.dir": "/nowhere"} | {k.replace("_", "."): v for k, v in settings.items()}
        self.config = ControllerConfig.parse(properties, "test")
        self.state = ClusterState(self.config, random.Random(7))
        self.now_ms = 1_000_000
        self.incarnations = {}
        self.log_ends = {}  # how far the replicas of a broker go; a release that does not say: None
        self.history = []
        self.state.load([], self.now_ms)
        self.apply([Change("cluster", None, "cluster-of-the-test")])

    @property
    def image(self):
        return self.state.image

    def apply(self, changes):
        made = [change for change in numbered(changes, self.image.version) if change is not None]
        self.state.apply(Batch(self.image, made), self.now_ms)
        self.history.extend(made)

    def do(self, decision):
        self.apply(decision.changes)
        return decision.answer

    def register(
        self,
        broker_id,
        *,
        incarnation=None,
        previous=None,
        rack="",
        cluster_id="",
        address=None,
        proof=None,
        missing=(),
    ):
        """A new process of the broker, which by default was stopped cleanly before."""
        known = self.image.broker(broker_id)
        if incarnation is None:
            self.incarnations[broker_id] = self.incarnations.get(broker_id, 0) + 1
            incarnation = broker_id.to_bytes(8, "big") + self.incarnations[broker_id].to_bytes(8, "big")
        if previous is None:
            previous = known.broker_epoch if known else -1
        address = address or f"host{broker_id}:9092"
        if proof is None:
            proof = known.incarnation_id if known else b""
        request = Registration(cluster_id, broker_id, incarnation, address, rack, previous, proof, missing=missing)
        return self.do(self.state.register_broker(request, self.now_ms))

    def claim(self, broker_id, epoch=None, incarnation=None):
        """What the broker's process shows with its requests, except what is given."""
        known = self.image.broker(broker_id)
        if known is None:
            return Claim(broker_id, epoch or 0, incarnation or b"")
        return Claim(broker_id, known.broker_epoch if epoch is None else epoch, incarnation or known.incarnation_id)

    def heartbeat(
        self, broker_id, *, epoch=None, incarnation=None, version=None, fence=False, shutdown=False, offline=()
    ):
        version = self.image.version if version is None else version
        claim, reports = self.claim(broker_id, epoch, incarnation), self.reports(broker_id)
        request = Heartbeat(claim, version, fence, shutdown, tuple(offline), reports)
        answer = self.do(self.state.heartbeat(request, self.now_ms))
        if answer.should_shutdown:
            self.state.sessions.end(broker_id)
        return answer

    def reports(self, broker_id):
        """What the broker says of its replicas without a leader."""
        log_end = self.log_ends.get(broker_id, LogEnd(0, 100))
        if log_end is None:
            return None
        leaderless = [(tp, self.image.partitions[tp]) for tp in self.image.index.led_by(-1)]
        return tuple(
            Report(self.image.topics[tp.topic].topic_id, tp.partition, state.leader_epoch, log_end)
            for tp, state in leaderless
            if broker_id in state.replicas
        )

    def recover(self):
        """All that live say how far their replicas go, and the controller looks whether that is enough."""
        for broker_id, broker in list(self.image.brokers.items()):
            if broker.active:
                self.heartbeat(broker_id)
        self.do(self.state.recover(self.now_ms))

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
        return self.do(self.state.create_topic(NewTopic(topic, **fields)))

    def assigned(self, topic, *replicas, **fields):
        """A topic whose partitions have exactly these replicas."""
        return self.create(topic, assignment=replicas, **fields)

    def partition(self, topic="t", partition=0) -> PartitionState:
        return self.image.partitions[TopicPartition(topic, partition)]

    def item(self, isr, *, topic="t", partition=0, **fields):
        """A proposal as the current leader would make it, except `fields`."""
        state = self.image.partitions.get(TopicPartition(topic, partition))
        known = self.image.topics.get(topic)
        proposal = Proposal(
            topic_partition=TopicPartition(topic, partition),
            topic_id=known.topic_id if known else b"",
            sender=state.leader if state else -1,
            leader_epoch=state.leader_epoch if state else 0,
            partition_epoch=state.partition_epoch if state else 0,
            isr=tuple((b, self.image.brokers[b].broker_epoch) if isinstance(b, int) else b for b in isr),
            recovering=False,
        )
        return replace(proposal, **fields)

    def alter(self, sender, *items, epoch=None, incarnation=None, present=()):
        claim = self.claim(sender, epoch, incarnation)
        proposals = [replace(item, sender=sender) for item in items]
        return self.do(self.state.alter_partition(claim, proposals, frozenset(present), self.now_ms))


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
    """`async with running(**settings) as r:`; the same store every time, and random numbers of its own."""
    seeds = itertools.count(3)

    @asynccontextmanager
    async def start(**settings):
        properties = {"metadata.log.dir": str(tmp_path)} | {k.replace("_", "."): v for k, v in settings.items()}
        config = ControllerConfig.parse(properties, "test")
        if not is_formatted(tmp_path):
            format_cluster(tmp_path, rng=random.Random(3))
        store = StoreInThread(SqliteStore(tmp_path))
        controller = ActiveController(config, store, H2Transport(), SystemClock(), random.Random(next(seeds)))
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
