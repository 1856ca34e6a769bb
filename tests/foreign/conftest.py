"""What the judges of Kafka's clients share."""

from collections.abc import Generator, Iterator

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from tests.foreign.clusters import REPLICAS, foreign_cluster
from tests.foreign.tools import NoTool


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """A tool that cannot be had skips the tests that need it."""
    try:
        return (yield)
    except NoTool as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A module's BROKERS and PARTITIONS say how many there are, and how many a topic has by default."""
    directory, brokers = tmp_path_factory.mktemp("cluster"), getattr(request.module, "BROKERS", REPLICAS)
    with foreign_cluster(directory, brokers, partitions=getattr(request.module, "PARTITIONS", 1)) as cluster:
        yield cluster
