"""A run says what it came to and what it exercised; one that exercised nothing of its profile is vacuous."""

import json

import pytest

from replog.cli import sim
from replog.simulator import runner
from replog.simulator.faults.nemesis import FAULTS, NotNow
from replog.simulator.profiles import PROFILES
from replog.simulator.runner import ABOUT, ENOUGH_SEEDS, SeedTotals, vacuous
from replog.simulator.simulation import SeedOutcome

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

    monkeypatch.setattr(runner, "ENOUGH_SEEDS", 1)
    moves = {"seeds": 1, "first_seed": 1, "profile": "moves", "jobs": 1, "keep": None, "as_json": True}
    for kind in PROFILES["moves"].faults:
        monkeypatch.setitem(FAULTS, kind, never)
    assert sim.run_many(**moves) == sim.VACUOUS
    told = capsys.readouterr()
    assert "vacuous: 1 seeds of moves passed, without any faults" in told.err
    assert json.loads(told.out)["exercised"]["records compared"] > 0
    assert ENOUGH_SEEDS > 1


def test_totals_add_up():
    totals = SeedTotals("storm", first_seed=7)
    one = SeedOutcome(7, "storm", virtual_s=30.0, steps=1000, acknowledged=5, faults={"kill a broker": 2}, cpu_s=0.5)
    other = SeedOutcome(8, "storm", "INV-5", "…", virtual_s=6.0, steps=200, faults={"kill a broker": 1}, cpu_s=0.1)
    for outcome in (one, other):
        totals.add(outcome)
    figures = totals.figures()
    assert (figures["failed"], figures["simulated hours"], figures["events"]) == ("8", "0.01", "1,200")
    assert totals.plain()["faults"] == {"kill a broker": 3}
