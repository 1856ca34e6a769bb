"""Small clusters in virtual time."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replog.server.broker.virtual_pair import VirtualPair


@pytest.fixture
def make_pair(tmp_path: Path) -> Iterator[Callable[..., VirtualPair]]:
    """A `VirtualPair` with these settings of its brokers."""
    pairs: list[VirtualPair] = []

    def make(**settings: Any) -> VirtualPair:
        pairs.append(VirtualPair(tmp_path, **settings))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.dispose()


@pytest.fixture
def pair(make_pair: Callable[..., VirtualPair]) -> VirtualPair:
    pair: VirtualPair = make_pair()
    return pair
