"""Apache Kafka for the tests, or the reason why there is none."""

import pytest

from tests.interop.history import History, live
from tests.interop.kafka import NEW, OLD, VERSION, Kafka, NoKafka


def of_version(version: str) -> Kafka:
    """Skips the test if it cannot be had."""
    try:
        return Kafka(version)
    except NoKafka as reason:
        pytest.skip(f"no Apache Kafka {version} to test against: {reason}")


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    return of_version(VERSION)


@pytest.fixture(scope="session")
def old_kafka() -> Kafka:
    return of_version(OLD)


@pytest.fixture(scope="session", params=[VERSION, NEW])
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    """The directories that a real broker left, of each version; nobody may change them."""
    return live(of_version(request.param), tmp_path_factory.mktemp("history"))
