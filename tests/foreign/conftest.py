"""What the judges of Kafka's clients share."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from tests.foreign.clusters import foreign_cluster
from tests.foreign.tools import NoTool


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    with _skipping():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    with _skipping():
        return (yield)


@contextmanager
def _skipping() -> Iterator[None]:
    """A tool that cannot be had skips the tests that need it."""
    try:
        yield
    except NoTool as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """As a module's CLUSTER says, else three brokers."""
    with foreign_cluster(tmp_path_factory.mktemp("cluster"), **getattr(request.module, "CLUSTER", {})) as cluster:
        yield cluster
