"""Who reaches the controller's port and speaks in a broker's name, against real processes (D40)."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import asynccontextmanager, closing

import pytest

from replog.client import Admin, ElectionType, Producer
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.waiting import wait_for
from replog.rpc.grpcio.channel import GrpcChannel
from replog.rpc.methods import Controller, Replica
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2, replica_pb2

pytestmark = [
    pytest.mark.processes,
    pytest.mark.plaintext("with TLS nobody can speak in a broker's name: test_secure_cluster, test_roles"),
]

VICTIM = 2
TOPIC = "t"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("forged"), brokers=3) as cluster:
        asyncio.run(_create(cluster))
        yield cluster


async def _create(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, assignment=[(VICTIM, 1, 3)], configs={"min.insync.replicas": "2"})


@asynccontextmanager
async def controller_of(cluster: LocalCluster):
    channel = GrpcChannel(cluster.state.controller.address)
    yield channel
    await channel.close()


async def published(cluster: LocalCluster) -> dict[int, metadata_pb2.BrokerRecord]:
    """What anybody may read of the brokers."""
    async with controller_of(cluster) as channel:
        delta = await anext(channel.watch(Controller["watch_metadata"], pb.WatchMetadataRequest()))
    return {record.broker.broker_id: record.broker for record in delta.records if record.HasField("broker")}


def stolen(cluster: LocalCluster) -> metadata_pb2.BrokerRecord:
    """Of the victim, from the controller's disk."""
    path = cluster.directory / "controller" / "data" / "metadata.sqlite"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        ((blob,),) = store.execute("SELECT record FROM metadata WHERE key = ?", [f"broker/{VICTIM}"]).fetchall()
    return metadata_pb2.MetadataRecord.FromString(blob).broker


def said(cluster: LocalCluster, event: str) -> list[dict[str, str]]:
    lines = cluster.log_file(cluster.state.broker(VICTIM)).read_text().splitlines()
    return [
        line for line in map(json.loads, filter(lambda line: line.startswith("{"), lines)) if event in line["event"]
    ]


async def heartbeat(cluster: LocalCluster, incarnation_id: bytes, epoch: int) -> pb.HeartbeatResponse:
    request = pb.HeartbeatRequest(
        broker_id=VICTIM, broker_epoch=epoch, incarnation_id=incarnation_id, want_fence=True, want_shutdown=True
    )
    async with controller_of(cluster) as channel:
        return await channel.call(Controller["heartbeat"], request, 30)


async def test_what_is_published_is_not_enough_to_stop_a_broker_or_to_forge_an_in_sync_set(cluster):
    known = (await published(cluster))[VICTIM]
    assert known.broker_epoch == stolen(cluster).broker_epoch
    assert known.incarnation_id == b""
    with pytest.raises(ReplogError) as refused:
        await heartbeat(cluster, known.incarnation_id, known.broker_epoch)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    item = pb.AlterPartitionItem(topic=TOPIC, new_isr=[pb.IsrMember(broker_id=VICTIM, broker_epoch=-1)])
    forged = pb.AlterPartitionRequest(broker_id=VICTIM, broker_epoch=known.broker_epoch, partitions=[item])
    async with controller_of(cluster) as channel:
        with pytest.raises(ReplogError, match="STALE_BROKER_EPOCH"):
            await channel.call(Controller["alter_partition"], forged, 30)
    assert not (await published(cluster))[VICTIM].fenced


@pytest.mark.parametrize(("epoch", "answer"), [(-1, "INVALID_REQUEST.*register"), (0, "INVALID_REQUEST.*register")])
async def test_who_fetches_as_a_follower_without_a_broker_epoch_is_refused(cluster, epoch, answer):
    """Before, a leader counted what it said to have: acks=all acknowledged what nobody had."""
    named = replica_pb2.ReplicaFetchPartition(topic=TOPIC, fetch_offset=1 << 40, partition_max_bytes=1)
    request = replica_pb2.ReplicaFetchRequest(replica_id=3, broker_epoch=epoch, max_bytes=1, partitions=[named])
    channel = GrpcChannel(cluster.state.broker(VICTIM).address)
    stream = channel.open(Replica["fetch"])
    with pytest.raises(ReplogError, match=answer):
        stream.post(request)
        await asyncio.wait_for(stream.each(lambda _: None), 30)
    await channel.close()


async def test_a_broker_that_a_thief_stops_says_so_and_serves_again_with_the_same_process(cluster):
    """One heartbeat with want_shutdown silenced it for good: it ran, said SERVING, stayed fenced and logged nothing."""
    process = cluster.state.broker(VICTIM).process
    secret = stolen(cluster)
    for _ in range(3):
        answer = await heartbeat(cluster, secret.incarnation_id, secret.broker_epoch)
        assert answer.is_fenced
        cluster.wait_for_full_isr(TOPIC)
        wait_for(lambda: "fenced" if _fenced(cluster) else "", "it stays fenced")
    async with Producer(cluster.bootstrap) as producer:
        await (await producer.send(TOPIC, b"after"))
    assert cluster.state.broker(VICTIM).process == process
    assert secret.incarnation_id.hex() not in cluster.log_file(cluster.state.broker(VICTIM)).read_text()


def _fenced(cluster: LocalCluster) -> bool:
    return stolen(cluster).fenced


async def test_registrations_without_heartbeats_get_no_replicas_and_go(cluster):
    """Three with new racks got two replicas of every new topic each."""
    async with controller_of(cluster) as channel, Admin(cluster.bootstrap) as admin:
        for fake in (101, 102, 103):
            request = pb.RegisterBrokerRequest(
                broker_id=fake, incarnation_id=b"%016d" % fake, address="h:1", rack=f"r{fake}", previous_broker_epoch=-1
            )
            await channel.call(Controller["register_broker"], request, 30)
        await admin.create_topic("spread", partitions=20, replication_factor=3)
        replicas = {replica for p in (await admin.describe_topic("spread")).partitions for replica in p.replicas}
        assert replicas == {1, 2, 3}
        await admin.unregister_broker(103)
        with pytest.raises(ReplogError, match="BROKER_ID_NOT_REGISTERED"):
            await admin.unregister_broker(103)
    async with asyncio.timeout(60):
        while (there := sorted(await published(cluster))) != [1, 2, 3]:
            assert 103 not in there
            await asyncio.sleep(0.2)


async def test_a_second_process_cannot_take_an_id_whose_process_lives(cluster):
    known = (await published(cluster))[VICTIM]
    request = pb.RegisterBrokerRequest(
        broker_id=VICTIM, incarnation_id=b"x" * 16, address="127.0.0.1:1", previous_broker_epoch=-1
    )
    async with controller_of(cluster) as channel:
        for _ in range(3):
            with pytest.raises(ReplogError, match=f"DUPLICATE_BROKER_REGISTRATION.*broker {VICTIM} is registered"):
                await channel.call(Controller["register_broker"], request, 30)
            await asyncio.sleep(0.5)
    assert (await published(cluster))[VICTIM].address == known.address


async def test_a_broker_that_hears_that_it_may_stop_though_it_did_not_ask_is_loud(cluster):
    """The thief's heartbeat relieves a leader of its partitions first; the broker's own next one is told to stop."""
    secret = stolen(cluster)
    request = pb.HeartbeatRequest(
        broker_id=VICTIM,
        broker_epoch=secret.broker_epoch,
        incarnation_id=secret.incarnation_id,
        want_shutdown=True,
        metadata_version=secret.broker_epoch,
    )
    async with Admin(cluster.bootstrap) as admin, controller_of(cluster) as channel:
        await admin.elect_leaders(ElectionType.PREFERRED)
        answer = await channel.call(Controller["heartbeat"], request, 30)
    assert not answer.should_shutdown, "it leads"
    wait_for(lambda: "" if said(cluster, "registration lost") else "silent", "it says nothing")
    (told, *_) = said(cluster, "registration lost")
    assert told["level"] == "error"
    assert "did not ask for" in told["reason"]
    assert told["remedy"]
    cluster.wait_for_full_isr(TOPIC)
    assert not _fenced(cluster)
