"""A run says what it exercised, and one that exercised nothing of what its profile is about is vacuous."""

import json

import pytest

from replog.cli import sim
from replog.simulator import exercised
from replog.simulator.exercised import ABOUT, ENOUGH_SEEDS, vacuous
from replog.simulator.faults.nemesis import DEEDS, NotNow
from replog.simulator.profiles import PROFILES

ALL = {"records compared": 9, "faults": 3, "elections": 1, "moves to other brokers": 2}


def without(*names: str) -> dict[str, int]:
    return {name: count for name, count in ALL.items() if name not in names}


@pytest.mark.parametrize(
    ("profile", "seeds", "counts", "missing"),
    [
        ("moves", 20, ALL, ""),
        ("moves", 20, without("moves to other brokers"), "without any moves to other brokers"),
        ("moves", 20, without("faults", "elections"), "without any faults, any elections"),
        ("moves", 19, without("faults", "elections", "moves to other brokers"), ""),
        ("moves", 1, without("records compared"), "1 seeds of moves passed, without any records compared"),
        ("moves", 20, ALL | {"elections": 0}, "any elections"),
        ("calm", 20, without("faults", "elections"), ""),
        ("swarm", 20, without("elections"), "any elections"),
    ],
)
def test_what_a_run_must_have_exercised(profile, seeds, counts, missing):
    reason = vacuous(PROFILES[profile], seeds, counts)
    assert missing in reason
    assert bool(reason) is bool(missing)


def test_what_profiles_are_about_is_of_profiles_that_are_there():
    assert ABOUT.keys() <= PROFILES.keys()


@pytest.mark.processes
def test_a_run_whose_faults_never_come_says_that_it_shows_nothing(monkeypatch, capsys):
    async def never(*_: object) -> None:
        raise NotNow

    monkeypatch.setattr(exercised, "ENOUGH_SEEDS", 1)
    moves = {"seeds": 1, "first_seed": 1, "profile": "moves", "jobs": 1, "keep": None, "as_json": True}
    for kind in PROFILES["moves"].faults:
        monkeypatch.setitem(DEEDS, kind, never)
    assert sim.run_many(**moves) == sim.VACUOUS
    told = capsys.readouterr()
    assert "vacuous: 1 seeds of moves passed, without any faults" in told.err
    assert json.loads(told.out)["exercised"]["records compared"] > 0
    assert ENOUGH_SEEDS > 1
