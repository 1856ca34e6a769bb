"""Apache Kafka for the tests, or the reason why there is none."""

import pytest

from tests.interop.kafka import Kafka, NoKafka


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    try:
        return Kafka()
    except NoKafka as reason:
        pytest.skip(f"no Apache Kafka to test against: {reason}")
