"""A client of one broker of three."""

from collections.abc import AsyncIterator

import pytest

from tests.replog.server.broker.conftest import InProcessCluster
from tests.replog.server.broker.kafka.client import Client, connected


@pytest.fixture
async def client(cluster: InProcessCluster) -> AsyncIterator[Client]:
    """Of broker 1 of three."""
    await cluster.start_brokers(1, 2, 3)
    async with connected(cluster.brokers[1].address) as client:
        yield client
