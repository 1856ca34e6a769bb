"""Whatever the order of steps in the small models, the simulator's invariants hold."""

import pytest

from tests.replog.models.deciding import BROKERS
from tests.replog.models.explore import explore, made
from tests.replog.models.models import MODELS, SmallModel
from tests.replog.models.moment import Bounds

NEAREST = 5_000  # states of each; `make models` goes on


@pytest.mark.parametrize("name", MODELS)
def test_no_order_of_steps_breaks_an_invariant(name):
    done = explore(MODELS[name], most=NEAREST)
    print(f"{name}: {done}")
    assert done.violation is None, done.story


def test_a_record_is_committed_once_all_have_fetched_it_and_the_next_fetch_tells_them():
    """The model moves as a cluster does; else it would keep every invariant."""
    with made(SmallModel(Bounds(appends=2, suspicions=1))) as model:
        state = model.root
        for step in (("append", 1), ("fetch", 2), ("fetch", 3)) + (("fetch", 2), ("fetch", 3)) * 2:
            assert step in list(model.enabled(state))
            state = model.do(state, step)
        assert [model.view(state, b).seen.high_watermark for b in BROKERS] == [1, 1, 1]
        for step in (("expire", (1,)), ("hear", 2), ("hear", 3), ("fetch", 3), ("append", 2), ("fetch", 3)):
            assert step in list(model.enabled(state))
            state = model.do(state, step)
        assert str(model.view(state, 3).seen.chain) == "0:0-0 1:1-1"


def test_the_same_state_is_the_same_whatever_the_way():
    with made(MODELS["elections"]) as model:
        one = model.do(model.do(model.do(model.root, ("append", 1)), ("fetch", 2)), ("fetch", 3))
        other = model.do(model.do(model.do(model.root, ("append", 1)), ("fetch", 3)), ("fetch", 2))
        assert one == other
