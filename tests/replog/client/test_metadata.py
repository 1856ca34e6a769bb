"""The client's view of the cluster."""

import asyncio
import random

import pytest

from replog.client import Admin, Producer
from replog.client.metadata import AVOID_S, STALE_MS, ClusterView, Leader, Metadata, parse_bootstrap
from replog.errors import ErrorCode, ReplogError
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import common_pb2, log_pb2
from replog.server.broker.broker import Broker
from replog.server.clock import SystemClock
from tests.replog.processes.proxy import proxy_to
from tests.replog.server.broker.conftest import TP, eventually


def answer(
    leader: int, epoch: int, topic_id: bytes = b"A" * 16, version: int = 0, cluster_id: str = "c"
) -> log_pb2.GetMetadataResponse:
    return log_pb2.GetMetadataResponse(
        cluster_id=cluster_id,
        metadata_version=version,
        controller="127.0.0.1:1",
        brokers=[log_pb2.BrokerMetadata(broker_id=i, address=f"127.0.0.1:{9000 + i}") for i in (1, 2)],
        topics=[
            log_pb2.TopicMetadata(
                topic="t",
                topic_id=topic_id,
                partitions=[log_pb2.PartitionMetadata(partition=0, leader=leader, leader_epoch=epoch)],
            )
        ],
    )


@pytest.mark.parametrize(
    ("configs", "size"),
    [
        ({"max.message.bytes": "2000"}, 2000),
        ({"max.message.bytes": "2000.0"}, 2000),
        ({"max_message_bytes": "1_000"}, 1000),
        ({"max.message.bytes": "2000", "segment.bytes": "1024.0"}, 1024),
        ({"max.message.bytes": "2 kB", "later.setting": "x"}, 1_048_588),
    ],
)
def test_a_batch_fits_the_limits_of_its_topic_in_any_notation_they_are_stored(configs, size):
    """2.6: who took no notice lost what would have fitted in smaller batches."""
    view, told = ClusterView(), answer(leader=2, epoch=5)
    told.topics[0].configs.update(configs)
    view.apply(told)
    assert view.topics["t"].max_batch_bytes == size


async def test_a_topic_that_is_looked_for_at_the_moment_when_a_refresh_ends_is_found(cluster):
    await cluster.start_broker(1)
    metadata = Metadata(cluster.brokers[1].address, H2Transport(), random.Random(1))
    ends = asyncio.get_running_loop().create_future()
    metadata.on_change = lambda: ends.done() or ends.set_result(None)

    async def look_for_it():
        await ends  # after the last step of the refresh, and before anybody is told that it is done
        return await metadata.topic("t", 10.0)

    looking = asyncio.create_task(look_for_it())
    await asyncio.sleep(0)
    await metadata.refresh()
    await cluster.create_topic("t", replication_factor=1)
    assert (await looking).partitions.keys() == {0}
    await metadata.close()


async def test_that_there_are_no_metadata_is_logged_once_until_there_are_some_again(cluster, caplog):
    await cluster.start_broker(1)
    metadata = Metadata(cluster.brokers[1].address, H2Transport(), random.Random(1))
    away = ReplogError(ErrorCode.NETWORK_EXCEPTION, "nobody is there")
    for _ in range(3):
        metadata.report(away)
    await metadata.fetch(())
    metadata.report(away)
    await metadata.close()
    assert [r.getMessage() for r in caplog.records if "no metadata" in r.message] == [
        "no metadata, trying on: nobody is there"
    ] * 2


def gone(version: int = 0) -> log_pb2.GetMetadataResponse:
    unknown = log_pb2.TopicMetadata(topic="t", error_code=common_pb2.UNKNOWN_TOPIC_OR_PARTITION)
    return log_pb2.GetMetadataResponse(cluster_id="c", metadata_version=version, topics=[unknown])


@pytest.mark.parametrize(
    ("answers", "leader"),
    [
        pytest.param([answer(2, 5, version=20), answer(1, 4, version=19)], Leader(2, "127.0.0.1:9002", 5), id="older"),
        pytest.param([answer(2, 5, version=20), answer(1, 6, version=21)], Leader(1, "127.0.0.1:9001", 6), id="newer"),
        pytest.param(
            [answer(2, 5, version=20), gone(19)], Leader(2, "127.0.0.1:9002", 5), id="older, without the topic"
        ),
        pytest.param([answer(1, 1), gone()], None, id="topic gone"),
        pytest.param(
            [answer(2, 5), answer(1, 0, topic_id=b"B" * 16)], Leader(1, "127.0.0.1:9001", 0), id="topic made again"
        ),
        pytest.param([answer(1, 5), answer(-1, 6)], None, id="no leader"),
        pytest.param([answer(1, 5), answer(7, 6)], None, id="leader without an address"),
    ],
)
def test_the_leader_is_the_one_of_the_newest_answer(answers, leader):
    view = ClusterView()
    for each in answers:
        view.apply(each)
    assert view.leader(TP) == leader
    assert ("t" in view.topics) == (answers[-1] != gone())


def test_another_cluster_begins_with_its_own_versions_and_has_none_of_the_topics():
    view = ClusterView()
    view.apply(answer(leader=2, epoch=5, version=20))
    view.apply(log_pb2.GetMetadataResponse(cluster_id="another", metadata_version=3))
    assert (view.topics, view.brokers) == ({}, {})
    view.apply(answer(leader=1, epoch=0, version=4, cluster_id="another"))
    assert view.leader(TP) == Leader(1, "127.0.0.1:9001", 0)


def test_bootstrap_addresses_are_read_once_each_from_text_or_list():
    assert parse_bootstrap("a:1, b:2,a:1,") == ("a:1", "b:2")
    assert parse_bootstrap(["a:1", "[::1]:2"]) == ("a:1", "[::1]:2")


@pytest.mark.parametrize("bad", ["", " , ", "host", "host:port", "host:70000", [":1"]])
def test_a_bootstrap_that_is_no_address_is_refused(bad):
    with pytest.raises(ReplogError, match="INVALID_CONFIG: "):
        parse_bootstrap(bad)


async def test_clients_of_a_broker_that_lost_its_controller_hear_of_the_rest_of_the_cluster(cluster):
    """It knows nothing of what was made since, nor who leads now, and is the only one that they were given."""
    await cluster.start_broker(1)
    async with proxy_to(cluster.controller_address) as link:
        bystander = await cluster.start_broker(2, controller_listener=link.address)
        link.cut()
        await eventually(lambda: silent_ms(bystander) > STALE_MS)
        async with Admin(bystander.address) as admin, Producer(bystander.address) as producer:
            await admin.create_topic("t", assignment=[[1]])
            assert (await (await producer.send("t", b"x"))).offset == 0
            assert await admin.list_topics() == ["t"]
            assert [partition.leader for partition in (await admin.describe_topic("t")).partitions] == [1]
            assert bystander.manager.context.image.topics == {}, "the broker is no bystander"
            await admin.delete_topic("t")
        await cluster.crash_broker(2)


async def test_a_refresh_that_does_not_help_asks_the_next_broker(cluster):
    """The first one has heard its controller just now, so that nothing tells that it knows old things."""
    knowing = await cluster.start_broker(1)
    async with proxy_to(cluster.controller_address) as link:
        bystander = await cluster.start_broker(2, controller_listener=link.address)
        link.cut()
        metadata = Metadata(bystander.address, H2Transport(), random.Random(1))
        try:
            async with Admin(knowing.address) as admin:
                await admin.create_topic("t", assignment=[[1]])
            bystander.manager.replicas.failure_detector.controller_ms = 1 << 60
            assert sorted((await metadata.topic("t", 30)).partitions) == [0]
            assert bystander.manager.context.image.topics == {}, "the broker is no bystander"
        finally:
            await metadata.close()
        await cluster.crash_broker(2)


def silent_ms(broker: Broker) -> int:
    return SystemClock().monotonic_ms() - broker.manager.replicas.failure_detector.controller_ms


async def test_a_broker_that_hangs_is_asked_last_for_a_while(cluster):
    """Each time that it is asked costs seconds, and a client in trouble asks one broker after the other."""
    brokers = [await cluster.start_broker(1), await cluster.start_broker(2)]
    async with proxy_to(brokers[0].address) as hangs:
        hangs.cut()
        metadata = Metadata([hangs.address, brokers[1].address], H2Transport(), random.Random(1))
        try:
            await metadata.fetch()
            for _ in range(5):
                metadata.ask_another()
                assert metadata._addresses()[-1] == hangs.address
            metadata._silent[hangs.address] -= AVOID_S
            firsts = set()
            for _ in range(len(metadata._addresses())):
                metadata.ask_another()
                firsts.add(metadata._addresses()[0])
            assert hangs.address in firsts, "it may be back, and know more than the others"
        finally:
            await metadata.close()
