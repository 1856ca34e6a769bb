"""Liveness during faults: a producer that waits longer than the bound for a majority that could serve fails a seed."""

from dataclasses import replace
from pathlib import Path

import pytest

from replog.simulator import serving
from replog.simulator.profiles import PROFILES, FaultKind
from replog.simulator.simulation import SeedOutcome, simulate
from tests.replog.simulator.variants import VARIANTS


def _simulated(directory: Path, seed: int) -> SeedOutcome:
    """Leaders that pause or lose their network for a few seconds."""
    faults = dict.fromkeys((FaultKind.PAUSE, FaultKind.ISOLATE_BROKER), 15.0)
    return simulate(seed, replace(PROFILES["serving"], faults=faults, trouble_s=(10.0, 10.0), long_s=8.0), directory)


@pytest.mark.processes
def test_a_wait_beyond_the_bound_is_told_with_who_could_have_served(tmp_path, monkeypatch):
    """No fail-over keeps such a bound. Which seed comes upon one first changes with the code."""
    monkeypatch.setattr(serving, "BOUND_S", 0.5)
    tried = []
    for seed in range(1, 21):
        outcome = _simulated(tmp_path / "disks", seed)
        if outcome.invariant == "live":
            break
        tried.append(f"seed {seed}: {outcome.text or 'nothing wrong'}")
    else:
        pytest.fail("\n".join(tried))
    assert "have reached each other, the controller and producer-" in outcome.text


@pytest.mark.processes
@pytest.mark.parametrize("seed", [5, 11])
def test_a_leader_that_refuses_a_record_for_its_size_has_answered(tmp_path, monkeypatch, seed):
    """Where nothing fails, nobody waits for a second; but a producer may send nothing else for that long."""
    monkeypatch.setattr(serving, "BOUND_S", 1.0)
    outcome = simulate(seed, replace(PROFILES["calm"], trouble_s=(20.0, 20.0)), tmp_path)
    assert not outcome.failed, outcome.text


@pytest.mark.processes
def test_isr_20_a_leader_that_stays_though_it_hears_none_of_those_who_could_lead_is_noticed(tmp_path):
    """ISR-20: its controller hears it, so nobody but itself can tell that it had better lead no more."""
    faults = {FaultKind.ISOLATE_FROM_BROKERS: 4.0}
    profile = replace(PROFILES["serving"], faults=faults, trouble_s=(60.0, 60.0), long_s=60.0)
    with VARIANTS["nobody-resigns"].applied():
        outcome = simulate(4, profile, tmp_path / "stays")
    assert outcome.invariant == "live", outcome.text
    assert not simulate(4, profile, tmp_path / "resigns").failed
