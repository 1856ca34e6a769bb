"""When a broker says that it is ready, which is when another one may be restarted (docs/operations.md)."""

import asyncio

from replog.errors import ErrorCode
from replog.local_cluster.probe import is_serving
from replog.rpc.health import READY
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually

TP = TopicPartition("t", 0)
LARGE = batch(b"x" * 100_000)


async def says(cluster: InProcessCluster, broker_id: int, service: str) -> bool:
    return await asyncio.to_thread(is_serving, cluster.brokers[broker_id].address, None, service)


async def test_a_broker_is_ready_when_its_replicas_are_in_sync_and_serves_before(cluster: InProcessCluster):
    slow = {"follower_replication_throttled_rate": 1, "replica_fetch_backoff_ms": 50}
    await cluster.begin(2, brokers=slow, min_insync_replicas="1", follower_replication_throttled_replicas="*")
    await eventually(lambda: cluster.controller.state.image.partitions[TP].isr == (1, 2))
    assert [await says(cluster, number, READY) for number in (1, 2)] == [True, True]
    await cluster.stop_broker(2)
    assert await says(cluster, 1, READY), "what others lack is theirs to say"
    for _ in range(20):
        assert (await cluster.produce(TP, LARGE))[0] is ErrorCode.NONE
    await cluster.start_broker(2, **slow)
    await eventually(lambda: TP in cluster.brokers[2].manager.replicas.hosted)
    assert (await says(cluster, 2, ""), await says(cluster, 2, READY)) == (True, False)
    async with cluster.admin() as admin:
        await admin.alter_topic_configs("t", {}, delete=["follower.replication.throttled.replicas"])
    await eventually(lambda: set(cluster.controller.state.image.partitions[TP].isr) == {1, 2})
    async with asyncio.timeout(60):
        while not await says(cluster, 2, READY):
            await asyncio.sleep(0.05)


async def test_a_broker_whose_partitions_have_no_leader_is_ready(cluster: InProcessCluster):
    """Nothing can be caught up with; to wait for it might wait for a broker that is only started after this one."""
    await cluster.begin(2, min_insync_replicas="1")
    await cluster.stop_broker(2)
    await cluster.crash_broker(1)
    await cluster.start_broker(2)
    await eventually(lambda: cluster.controller.state.image.partitions[TP].leader == -1)
    assert await says(cluster, 2, READY)
