"""What tests of the simulator share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess
from replog.simulator.runtime.rng import Rng
from tests.replog.simulator.checks.story import Story
from tests.replog.simulator.checks.tiny import TinyWorld, three
from tests.replog.simulator.hosts import Host, Pair


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    failures = pair.loop.failures
    pair.loop.dispose()
    assert failures == []


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(Rng(1))
    yield loop
    loop.dispose()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with Host(tmp_path) as host:
        yield host


@pytest.fixture
def process() -> SimulatedProcess:
    return SimulatedProcess("broker-1")


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    """Broker 1 leads, 2 and 3 follow; offsets 0 to 4 of epoch 0 are committed, and all know it."""
    return three(tmp_path, "0:0-4")


@pytest.fixture
def story() -> Story:
    return Story()
