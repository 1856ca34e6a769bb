"""Liveness during faults: a producer that waits longer than the bound for a majority that could serve fails a seed."""

from dataclasses import replace
from pathlib import Path

import pytest

from cluster.simulation import serving
from cluster.simulation.profiles import PROFILES, Fault
from cluster.simulation.simulation import Outcome, simulate


def _seed(directory: Path, *kinds: Fault) -> Outcome:
    """Leaders that pause or lose their network for a few seconds, and a bound that no fail-over can keep."""
    faults = dict.fromkeys(kinds, 15.0)
    return simulate(1, replace(PROFILES["serving"], faults=faults, trouble_s=(10.0, 10.0), long_s=8.0), directory)


@pytest.mark.processes
def test_a_wait_beyond_the_bound_is_told_with_who_could_have_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "BOUND_S", 0.5)
    outcome = _seed(tmp_path / "disks", Fault.PAUSE, Fault.ISOLATE_BROKER)
    assert outcome.invariant == "live"
    assert "have reached each other, the controller and producer-" in outcome.text
