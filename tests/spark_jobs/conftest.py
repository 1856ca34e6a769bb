"""Three replicas of a topic as directories, and the one thing of Spark that a busy machine cannot do."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tests.spark_jobs.command import Command
from tests.spark_jobs.log_directories import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path / "brokers")
    cluster.add("orders")
    return cluster


@pytest.fixture
def command() -> Iterator[Callable[..., Command]]:
    """Starts `replog audit` with these words; nothing of it is left running."""
    started: list[Command] = []

    def start(*words: str) -> Command:
        started.append(Command(*words))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        with each.process:  # closes its pipes, and waits
            pass


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Spark waits ten seconds for the Python of a stream to start, and cannot be told to wait longer."""
    try:
        return (yield)
    except PySparkException as error:
        if "Python worker failed to connect back" in str(error):
            pytest.skip("this machine is too busy for a streaming query: Spark gives its Python 10 s to start")
        raise
