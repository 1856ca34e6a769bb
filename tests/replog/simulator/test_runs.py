"""Seeds: whole clusters under faults, every invariant after every step."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from replog.server.authorizer import Authorizer
from replog.simulator.profiles import PROFILES
from replog.simulator.runner import run_seeds
from replog.simulator.runtime import loop
from replog.simulator.simulation import SeedOutcome, simulate

SEEDS = 40
JOBS = max(1, (os.cpu_count() or 2) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))  # others test meanwhile
KNOWN = Path(__file__).with_name("seeds.txt")


def _known() -> dict[str, list[int]]:
    """Seeds that failed once, by profile; each line: profile, seed, what it found."""
    known: dict[str, list[int]] = {}
    for line in KNOWN.read_text().splitlines():
        if line and not line.startswith("#"):
            profile, seed, _found = line.split(maxsplit=2)
            known.setdefault(profile, []).append(int(seed))
    return known


def _told(failed: list[SeedOutcome]) -> str:
    return "\n\n".join(f"seed {outcome.seed} of {outcome.profile}\n{outcome.text}" for outcome in failed)


@pytest.mark.processes
def test_forty_seeds_hold_every_invariant():
    """The same each time, though what they do changes with the code; `make sim` takes others."""
    outcomes = list(run_seeds(range(SEEDS), PROFILES["quick"], jobs=JOBS))
    failed = [outcome for outcome in outcomes if outcome.failed]
    assert not failed, _told(failed)
    assert len(outcomes) == SEEDS
    assert sum(outcome.acknowledged for outcome in outcomes) > 0
    assert len({kind for outcome in outcomes for kind in outcome.faults}) > 20, "the faults did not happen"


@pytest.mark.processes
def test_seeds_with_hundreds_of_partitions_hold_every_invariant():
    failed = [outcome for outcome in run_seeds((2, 3), PROFILES["many"], jobs=JOBS) if outcome.failed]
    assert not failed, _told(failed)


@pytest.mark.processes
@pytest.mark.parametrize(("profile", "seeds"), sorted(_known().items()))
def test_seeds_that_once_failed_pass(profile, seeds):
    failed = [outcome for outcome in run_seeds(seeds, PROFILES[profile]) if outcome.failed]
    assert not failed, _told(failed)


@pytest.mark.processes
def test_a_step_that_makes_its_loop_wait_for_the_disk_too_long_fails_its_seed(monkeypatch):
    """A start asks for so much, before anything is served."""
    monkeypatch.setattr(loop, "TOLD_S", 0.001)
    (outcome,) = run_seeds([1], replace(PROFILES["calm"], step_limit_s=0.001))
    assert outcome.invariant == "loop"
    assert "fsync" in outcome.text


@pytest.mark.processes
@pytest.mark.parametrize("profile", ["storm", "disks", "kafka"])
def test_a_seed_gives_the_same_trace_byte_for_byte_in_any_process(profile):
    def replayed(hash_seed: str) -> bytes:
        command = [sys.executable, *f"-m replog.cli sim replay --seed 7 --profile {profile} --messages".split()]
        done = subprocess.run(
            command, capture_output=True, env=os.environ | {"PYTHONHASHSEED": hash_seed}, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout.decode()[-3000:] + done.stderr.decode()
        return done.stdout

    first, second = replayed("1"), replayed("2")
    assert first.count(b"\n") > 500
    differences = [pair for pair in zip(first.splitlines(), second.splitlines(), strict=False) if pair[0] != pair[1]]
    assert first == second, differences[:1]


@pytest.mark.parametrize("seed", [1, 2])
def test_clients_get_what_they_need_and_a_stranger_nothing(tmp_path, seed):
    outcome = simulate(seed, PROFILES["permission"], tmp_path)
    assert outcome.text == ""
    assert outcome.acknowledged > 100


@pytest.mark.parametrize("of", ["allows", "check"])
def test_the_simulator_notices_who_is_let_in(tmp_path, monkeypatch, of):
    monkeypatch.setattr(Authorizer, of, lambda *_, **__: True)
    outcome = simulate(1, PROFILES["permission"], tmp_path)
    assert "a stranger got an answer" in outcome.text, outcome.text[:2000]
