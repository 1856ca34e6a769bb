"""The soak judges what it measured."""

import pytest

from benchmarks import soak
from benchmarks.soak import Memory, faults, growth, run, shown

HOUR = 3600.0
FLAT = {"before_mib": 80.0, "after_mib": 80.0, "per_hour_mib": 0.0, "allowed_mib": 5.0}


def samples(resident_mib, seconds=2 * HOUR, every_s=10.0):
    return [Memory(n * every_s, resident_mib(n * every_s / HOUR)) for n in range(int(seconds / every_s))]


def test_memory_that_fills_during_the_warm_up_is_flat():
    grown = growth(samples(lambda hour: 60 + min(20, hour * 100)), 2 * HOUR)
    assert grown.is_flat
    assert (grown.before_mib, grown.after_mib, grown.per_hour_mib) == (80, 80, 0)


def test_a_slope_above_the_bound_is_told_by_the_hour():
    """The halves of what is left after 12 of 120 minutes are 54 minutes apart."""
    for slope, is_flat in ((5.0, True), (8.0, False)):
        grown = growth(samples(lambda hour, slope=slope: 80 + slope * hour), 2 * HOUR)
        assert grown.per_hour_mib == pytest.approx(slope, abs=0.1)
        assert grown.allowed_mib == pytest.approx(0.05 * grown.before_mib * 0.9 + 2, abs=0.1)
        assert grown.is_flat is is_flat, grown


def test_a_burst_now_and_then_is_no_growth():
    grown = growth(samples(lambda hour: 160 if hour * 60 % 10 < 1 else 80), 2 * HOUR)
    assert (grown.before_mib, grown.after_mib) == (80, 80)


def test_too_few_samples_are_not_judged():
    with pytest.raises(ValueError, match="3 samples in 100 s: too few to compare"):
        growth(samples(lambda _: 80, seconds=30), 100)


def test_memory_that_grew_and_what_broke_are_found():
    figures = {"seconds": 7200.0, "kills": 40, "passed": 9, "records": 5, "broken": [], "growth": {"broker-1": FLAT}}
    assert faults(figures) == []
    assert shown(figures).endswith("Found: nothing.")
    grown = figures | {"growth": {"broker-1": FLAT | {"after_mib": 86.0}}}
    assert faults(grown) == ["broker-1 grew from 80.0 to 86.0 MiB, by more than 5.0"]
    assert faults(figures | {"broken": ["OSError()"]}) == ["OSError()"]
    assert shown(figures | {"broken": ["OSError()"]}).endswith("Found: OSError().")


@pytest.mark.processes
def test_a_short_soak_kills_a_broker_and_breaks_nothing(monkeypatch):
    """Memory is not judged: caches are still filling."""
    monkeypatch.setattr(soak, "SAMPLE_S", 1.0)
    monkeypatch.setattr(soak, "DOWN_S", (0.5, 1.0))
    ran = run(seconds=15.0, seed=1, note=print)
    assert ran["broken"] == []
    assert ran["kills"] >= 1
    assert ran["records"] > 500
    assert ran["passed"] > 20
    assert set(ran["growth"]) == {"controller", "broker-1", "client-1", "client-2"}
