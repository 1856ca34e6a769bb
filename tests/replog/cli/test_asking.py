"""What commands that wait for a topic say meanwhile."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replog.cli.asking import not_deleted, not_led
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import InProcessCluster

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """Two, and topic t with two partitions, a replica on each broker."""
    cluster = InProcessCluster(tmp_path)
    await cluster.start_controller()
    await cluster.begin(2, partitions=2)
    yield cluster
    await cluster.stop()


async def test_a_partition_that_was_seen_to_be_led_is_not_looked_at_again(brokers: InProcessCluster):
    led = set[tuple[int, int]]()
    leader = brokers.brokers[brokers.leader(FIRST)]
    async with brokers.admin() as admin:
        there = leader.manager.replicas.hosted.pop(FIRST)
        assert await not_led(admin, "t", led) == "1 of 2 partitions are led"
        leader.manager.replicas.hosted[FIRST] = there
        assert not await not_led(admin, "t", led)
        leader.manager.replicas.hosted.pop(FIRST)
        assert not await not_led(admin, "t", led)
        assert await not_led(admin, "t", {(0, 99), (1, brokers.leader(SECOND))}) == "1 of 2 partitions are led"
        leader.manager.replicas.hosted[FIRST] = there
        assert await not_led(admin, "unknown", set()) == "no broker knows it"


async def test_a_topic_that_is_deleted_is_waited_for_while_replicas_go(brokers: InProcessCluster):
    topic_id = brokers.controller.state.image.topics["t"].topic_id
    async with brokers.admin() as admin:
        assert await not_deleted(admin, "t", topic_id) == "brokers know it, and 4 replicas are left"
        assert not await not_deleted(admin, "t", b"of an earlier t.")
        await admin.delete_topic("t")
        assert not await not_deleted(admin, "t", topic_id)
