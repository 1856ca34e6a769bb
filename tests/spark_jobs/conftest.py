"""Three replicas of a topic as directories, and the one thing of Spark that a busy machine cannot do."""

from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tests.spark_jobs.log_directories import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path / "brokers")
    cluster.add("orders")
    return cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Spark waits ten seconds for the Python of a stream to start, and cannot be told to wait longer."""
    try:
        return (yield)
    except PySparkException as error:
        if "Python worker failed to connect back" in str(error):
            pytest.skip("this machine is too busy for a streaming query: Spark gives its Python 10 s to start")
        raise
