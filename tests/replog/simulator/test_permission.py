"""With an authorizer on, clients go on with what they were allowed, and a stranger gets nothing."""

import pytest

from replog.server.authorizer import Authorizer
from replog.simulator.profiles import profile_named
from replog.simulator.simulation import simulate


@pytest.mark.parametrize("seed", [1, 2])
def test_clients_get_what_they_need_and_a_stranger_nothing(tmp_path, seed):
    outcome = simulate(seed, profile_named("permission"), tmp_path)
    assert outcome.text == ""
    assert outcome.acknowledged > 100


@pytest.mark.parametrize("of", ["allows", "check"])
def test_the_simulator_notices_who_is_let_in(tmp_path, monkeypatch, of):
    monkeypatch.setattr(Authorizer, of, lambda *_, **__: True)
    outcome = simulate(1, profile_named("permission"), tmp_path)
    assert "a stranger got an answer" in outcome.text, outcome.text[:2000]
