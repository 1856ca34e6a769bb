"""Partitions that move between brokers while they are used, and leaders elected on request."""

import asyncio
from collections.abc import Sequence

from replog.client import Consumer, ElectionType, Producer, Record
from replog.errors import ErrorCode
from replog.metadata.values import PartitionState
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually

TP = TopicPartition("t", 0)


async def create(cluster: InProcessCluster, *replicas: int, **configs: str) -> None:
    async with cluster.admin() as admin:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        await admin.create_topic("t", assignment=[replicas], configs=named)
    await cluster.led(TP)


async def reassign(cluster: InProcessCluster, target: Sequence[int] | None) -> None:
    async with cluster.admin() as admin:
        assert await admin.alter_partition_reassignments({TP: target}) == {TP: None}


def now(cluster: InProcessCluster) -> PartitionState:
    return cluster.controller.state.image.partitions[TP]


async def until_settled(cluster: InProcessCluster) -> None:
    """No reassignment is under way, and every replica is in sync and has everything."""
    await eventually(lambda: not now(cluster).reassigning, what=lambda: now(cluster))
    await eventually(lambda: set(now(cluster).isr) == set(now(cluster).replicas), what=lambda: now(cluster))
    await eventually(lambda: cluster.leader(TP) in hosts(cluster))
    end = cluster.log(cluster.leader(TP), TP).log_end_offset
    logs = [cluster.log(broker_id, TP) for broker_id in now(cluster).replicas]
    await eventually(lambda: all(log.high_watermark == log.log_end_offset >= end for log in logs))


def hosts(cluster: InProcessCluster) -> set[int]:
    return {broker_id for broker_id, broker in cluster.brokers.items() if TP in broker.manager.hosted}


async def test_ct_17_a_partition_moves_to_other_brokers_under_load_and_nothing_is_lost(cluster):
    """CT-14, CT-15, CT-17: the leader moves too, and a broker that left has deleted its copy."""
    await cluster.start_brokers(1, 2, 3, 4, 5)
    await create(cluster, 1, 2, 3)
    bootstrap = ",".join(broker.address for broker in cluster.brokers.values())
    acknowledged: list[tuple[int, bytes]] = []
    for offset in range(12):  # so that copying takes its time
        value = bytes([offset]) * 900_000
        assert await cluster.produce(TP, batch(value)) == (ErrorCode.NONE, offset, "")
        acknowledged.append((offset, value))
    stopped = asyncio.Event()

    async def keep_producing(producer: Producer) -> None:
        number = 0
        while not stopped.is_set():
            value = b"%d" % number
            stored = await (await producer.send("t", value))
            acknowledged.append((stored.offset, value))
            number += 1

    async with Producer(bootstrap) as producer:
        producing = asyncio.create_task(keep_producing(producer))
        await eventually(lambda: len(acknowledged) > 50)
        for target in ([2, 3, 4], [4, 5], [1, 2, 3]):
            enough = len(acknowledged) + 50
            await reassign(cluster, target)
            await eventually(lambda: not now(cluster).reassigning, what=lambda: now(cluster))
            assert now(cluster).replicas == tuple(target)
            await eventually(lambda enough=enough: len(acknowledged) > enough, what=lambda: (producing, now(cluster)))
        stopped.set()
        await producing
    await until_settled(cluster)
    await eventually(lambda: hosts(cluster) == {1, 2, 3}, what=lambda: hosts(cluster))
    assert [(cluster.directory / f"broker-{b}" / "t-0").exists() for b in (1, 2, 3, 4, 5)] == [True] * 3 + [False] * 2

    async with Consumer(bootstrap) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        records: list[Record] = []
        while len(records) < len(acknowledged):
            records += await consumer.fetch()
    assert [record.offset for record in records] == [offset for offset, _ in acknowledged]
    assert all(record.value == value for record, (_, value) in zip(records, acknowledged, strict=True))


async def test_a_move_that_cannot_go_on_is_cancelled_and_leaves_nothing_behind(cluster, monkeypatch):
    """CT-16, CT-17."""
    await cluster.start_brokers(1, 2, 3, 4)
    await create(cluster, 1, 2, 3)
    assert (await cluster.produce(TP, batch(b"one")))[0] is ErrorCode.NONE
    monkeypatch.setattr(cluster.brokers[4]._fetchers, "fetch", lambda *_: None)  # it gets nowhere
    await reassign(cluster, [1, 2, 4])
    async with cluster.admin() as admin:
        (under_way,) = (await admin.list_partition_reassignments()).values()
        assert (under_way.replicas, under_way.adding_replicas) == ((1, 2, 4, 3), (4,))
        await eventually(lambda: all(4 in b._image.partitions[TP].adding for b in cluster.brokers.values()))
        (described,) = (await admin.describe_topic("t")).partitions
        assert (described.adding_replicas, described.removing_replicas) == ((4,), (3,))
    assert (await cluster.produce(TP, batch(b"two")))[0] is ErrorCode.NONE, "the others go on"
    await eventually(lambda: 4 in hosts(cluster))
    assert (cluster.directory / "broker-4" / "t-0").exists()
    await reassign(cluster, None)
    assert (now(cluster).replicas, now(cluster).leader) == ((1, 2, 3), 1)
    await until_settled(cluster)
    await eventually(lambda: hosts(cluster) == {1, 2, 3}, what=lambda: hosts(cluster))
    await eventually(lambda: not (cluster.directory / "broker-4" / "t-0").exists())
    await cluster.led(TP)
    assert (await cluster.produce(TP, batch(b"three"))) == (ErrorCode.NONE, 2, "")
    async with cluster.admin() as admin:
        (refused,) = (await admin.alter_partition_reassignments({TP: None})).values()
        assert refused is not None
        assert refused.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert await admin.list_partition_reassignments() == {}


async def test_brokers_die_and_return_in_mid_move_and_it_completes(cluster):
    """CT-14, CT-15, CT-17: first one that is to come, then the leader that is to go."""
    await cluster.start_brokers(1, 2, 3, 4, 5)
    await create(cluster, 1, 2, 3)
    await cluster.produce(TP, batch(b"one"))
    await cluster.crash_broker(5)
    await reassign(cluster, [3, 4, 5])
    await eventually(lambda: 4 in cluster.isr(TP), what=lambda: now(cluster))
    assert now(cluster).reassigning
    await cluster.crash_broker(1)
    await eventually(lambda: cluster.leader(TP) == 3, what=lambda: now(cluster))
    await cluster.led(TP)
    assert (await cluster.produce(TP, batch(b"two"))) == (ErrorCode.NONE, 1, "")
    await cluster.start_broker(5)
    await until_settled(cluster)
    assert now(cluster).replicas == (3, 4, 5)
    assert [cluster.log(b, TP).log_end_offset for b in (3, 4, 5)] == [2, 2, 2]
    await cluster.start_broker(1)  # it hears at its start that the partition is not its own any more
    await eventually(lambda: hosts(cluster) == {3, 4, 5}, what=lambda: hosts(cluster))
    assert not (cluster.directory / "broker-1" / "t-0").exists()


async def test_hw_7_fewer_replicas_may_be_all_that_a_commit_needs(cluster):
    """HW-7, PR-2: the effective minimum follows the assignment, down and up."""
    await cluster.start_brokers(1, 2, 3)
    await create(cluster, 1, 2, 3, min_insync_replicas="3")
    await cluster.crash_broker(3)
    leader = cluster.brokers[1].manager.hosted[TP].leader
    assert leader is not None
    await eventually(lambda: leader.isr == {1, 2}, what=lambda: leader.state)
    assert (await cluster.produce(TP, batch(b"one")))[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await cluster.produce(TP, batch(b"one"), acks=1))[0] is ErrorCode.NONE
    assert cluster.log(1, TP).high_watermark == 0, "HW-2"
    await reassign(cluster, [1, 2])
    assert now(cluster).replicas == (1, 2), "CT-15: both are in sync already"
    await eventually(lambda: cluster.log(1, TP).high_watermark == 1, what=lambda: cluster.log(1, TP))
    assert (await cluster.produce(TP, batch(b"two")))[0] is ErrorCode.NONE
    await reassign(cluster, [1, 2, 3])
    await eventually(lambda: leader.min_insync_replicas == 3)
    assert (await cluster.produce(TP, batch(b"three")))[0] is ErrorCode.NOT_ENOUGH_REPLICAS, "3 is away"
    await cluster.start_broker(3)
    await until_settled(cluster)
    await eventually(lambda: leader.isr == {1, 2, 3}, what=lambda: leader.state)  # the controller knows first
    assert (await cluster.produce(TP, batch(b"three")))[0] is ErrorCode.NONE


async def test_ct_11_leaders_are_elected_on_request(cluster):
    """CT-11, CT-8, ST-15: preferred; unclean; and the unclean leader is joined again."""
    await cluster.start_brokers(1, 2, 3)
    await create(cluster, 1, 2, 3)
    async with cluster.admin() as admin:
        await cluster.produce(TP, batch(b"one"))
        (needless,) = (await admin.elect_leaders(ElectionType.PREFERRED, [TP])).values()
        assert needless.error is not None
        assert needless.error.code is ErrorCode.ELECTION_NOT_NEEDED
        assert await admin.elect_leaders(ElectionType.PREFERRED) == {}, "of all partitions none needs one"
        await cluster.stop_broker(1)
        assert cluster.leader(TP) == 2
        await cluster.start_broker(1)
        await eventually(lambda: cluster.isr(TP) == {1, 2, 3})
        (elected,) = (await admin.elect_leaders(ElectionType.PREFERRED)).values()
        assert (elected.leader, elected.error) == (1, None)

        for broker_id in (3, 2, 1):  # 3 is the first that leaves: it may miss what the others commit
            await cluster.stop_broker(broker_id)
        assert now(cluster).leader == -1
        await cluster.start_broker(3)
    async with cluster.admin() as admin:
        assert now(cluster).leader == -1, "nobody has allowed an unclean election"
        (unclean,) = (await admin.elect_leaders(ElectionType.UNCLEAN, [TP])).values()
        assert (unclean.leader, unclean.error) == (3, None)
    assert now(cluster).recovering
    await cluster.start_brokers(1, 2)
    await eventually(lambda: cluster.isr(TP) == {1, 2, 3}, what=lambda: now(cluster))
    assert not now(cluster).recovering
    assert (await cluster.produce(TP, batch(b"two")))[0] is ErrorCode.NONE
