"""What tests of the checks share."""

from pathlib import Path

import pytest

from tests.replog.simulator.checks.story import Story
from tests.replog.simulator.checks.tiny import TinyWorld, three


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    """Broker 1 leads, 2 and 3 follow; offsets 0 to 4 of epoch 0 are committed, and all know it."""
    return three(tmp_path, "0:0-4")


@pytest.fixture
def story() -> Story:
    return Story()
