"""Which fetchers a broker has."""

from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import eventually


async def test_all_partitions_of_a_leader_share_one_fetcher(cluster):
    """FT-1."""
    await cluster.begin(2, partitions=6)
    leaders = {cluster.leader(TopicPartition("t", partition)) for partition in range(6)}
    assert leaders == {1, 2}
    for follower_id, leader_id in ((1, 2), (2, 1)):
        fetchers = cluster.brokers[follower_id]._fetchers
        (fetcher,) = fetchers._fetchers.values()
        led = {tp for tp in (TopicPartition("t", p) for p in range(6)) if cluster.leader(tp) == leader_id}
        assert set(fetcher.session.partitions) == led
    await cluster.delete_topic("t")
    for broker in cluster.brokers.values():
        await eventually(lambda broker=broker: not broker._fetchers._fetchers)
