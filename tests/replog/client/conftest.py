"""The clients against a real controller and real brokers, in this process, over gRPC on loopback."""

import asyncio

import pytest

from replog.client import Consumer, Record
from tests.replog.server.broker.conftest import TP, InProcessCluster, cluster

__all__ = ["TP", "InProcessCluster", "bootstrap", "cluster", "one_broker", "read"]


def bootstrap(cluster: InProcessCluster) -> str:
    return ",".join(broker.address for broker in cluster.brokers.values())


@pytest.fixture
async def one_broker(cluster: InProcessCluster) -> str:
    """The address of broker 1, alone, with a topic t of one partition."""
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1)
    return cluster.brokers[1].address


async def read(consumer: Consumer, count: int, timeout_s: float = 60) -> list[Record]:
    """At least so many records."""
    records: list[Record] = []
    async with asyncio.timeout(timeout_s):
        while len(records) < count:
            records += await consumer.fetch()
    return records
