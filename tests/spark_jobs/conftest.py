"""The one thing of Spark that a busy machine cannot do."""

from collections.abc import Generator

import pytest
from pyspark.errors import PySparkException


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Spark waits ten seconds for the Python of a stream to start, and cannot be told to wait longer."""
    try:
        return (yield)
    except PySparkException as error:
        if "Python worker failed to connect back" in str(error):
            pytest.skip("this machine is too busy for a streaming query: Spark gives its Python 10 s to start")
        raise
