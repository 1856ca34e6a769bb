import pytest

from replog.errors import ErrorCode, ReplogError
from replog.local_cluster import probe
from replog.local_cluster.probe import wait_for


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(probe, "POLL_S", 0.02)
    monkeypatch.setattr(probe, "TELL_S", 0.05)


def test_a_wait_is_as_long_as_there_is_progress_and_says_how_far_it_is():
    left, told = list(range(1, 50)), []
    wait_for(lambda: f"{left.pop()} are left" if left else "", "they did not come", 0.5, told.append)
    assert len(told) > 1
    assert set(told) <= {f"waiting: {number} are left" for number in range(50)}


def test_a_wait_without_progress_ends_although_old_states_come_again():
    states = ["one is left", "two are left"] * 10_000
    with pytest.raises(ReplogError, match=r"they did not come: .* left, and no progress in 0\.2 s") as caught:
        wait_for(states.pop, "they did not come", 0.2)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
