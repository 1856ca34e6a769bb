"""What the judges of Kafka's clients share."""

from collections.abc import Generator, Iterator

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from tests.foreign.clusters import foreign_cluster
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
    """Three brokers; a module's PARTITIONS says how many partitions its topics have by default."""
    directory = tmp_path_factory.mktemp("cluster")
    with foreign_cluster(directory, partitions=getattr(request.module, "PARTITIONS", 1)) as cluster:
        yield cluster
