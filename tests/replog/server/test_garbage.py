"""The search for garbage looks at what is new, and at everything now and then."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from replog.server import garbage
from replog.server.garbage import search_what_is_new


class Ring:
    """Refers to itself, so that only the search finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def searching() -> Iterator[None]:
    end = search_what_is_new()
    yield
    end()
    gc.collect()


def test_what_a_search_has_left_is_not_looked_at_again():
    ring = Ring()
    gc.collect()
    assert gc.get_freeze_count() > 1000, "with all that the tests have"
    assert not any(each is ring for each in gc.get_objects()), "which are those that a search looks at"
    gone = weakref.ref(ring)
    del ring
    gc.collect()
    assert gone() is not None


def test_new_garbage_is_found():
    gc.collect()
    gone = weakref.ref(Ring())
    gc.collect()
    assert gone() is None


def test_everything_is_looked_at_when_much_has_come_since(monkeypatch):
    """So what hides among it is bounded."""
    monkeypatch.setattr(garbage, "UNSEEN", 5000)
    ring = Ring()
    gc.collect()
    gone = weakref.ref(ring)
    del ring
    kept = [Ring() for _ in range(5000)]
    gc.collect()
    assert gone() is not None
    gc.collect()
    assert gone() is None
    assert len(kept) == 5000
