"""What tests of the simulator share."""

from collections.abc import Iterator

import pytest

from tests.cluster.simulation.conversation import Pair


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    failures = pair.loop.failures
    pair.loop.dispose()
    assert failures == []
