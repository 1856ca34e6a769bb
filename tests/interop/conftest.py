"""Apache Kafka for the tests, or the reason why there is none."""

import pytest

from tests.interop.history import History, live
from tests.interop.kafka import OLD, VERSION, Kafka, NoKafka


def _of_version(version: str) -> Kafka:
    try:
        return Kafka(version)
    except NoKafka as reason:
        pytest.skip(f"no Apache Kafka {version} to test against: {reason}")


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    return _of_version(VERSION)


@pytest.fixture(scope="session")
def old_kafka() -> Kafka:
    return _of_version(OLD)


@pytest.fixture(scope="session")
def history(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> History:
    """The directories that a real broker left; nobody may change them."""
    return live(kafka, tmp_path_factory.mktemp("history"))
