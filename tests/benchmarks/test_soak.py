"""The soak judges what it measured; a short one loses no record."""

import pytest

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


def figures(**changed):
    told = {
        "writer": {"sent": [3, 2], "acknowledged": 5, "failed": 0, "errors": [], "longest_s": 0.3},
        "reader": {"read": [3, 2], "wrong": 0, "examples": []},
        "passer-by": {"topics": 4},
    }
    for name, fields in changed.items():
        told[name] |= fields
    return {
        "seconds": 7200.0, "seed": 1, "broken": [], "kills": 40, "told": told, "growth": {"broker-1": dict(FLAT)}
    }  # fmt: skip


def test_a_record_that_is_lost_doubled_or_not_acknowledged_is_found_and_memory_that_grew():
    assert faults(figures()) == []
    assert faults(figures(reader={"read": [3, 1]})) == ["sent [3, 2], read [3, 1], out of turn []"]
    doubled = figures(reader={"wrong": 1, "examples": ["steady-0: record 2 instead of 3"]})
    assert faults(doubled) == ["sent [3, 2], read [3, 2], out of turn ['steady-0: record 2 instead of 3']"]
    lost = figures(writer={"acknowledged": 4, "failed": 1, "errors": ["timed out"]})
    assert faults(lost) == ["5 records sent, 4 acknowledged: ['timed out']"]
    grown = figures()
    grown["growth"]["broker-1"]["after_mib"] = 86.0
    assert faults(grown) == ["broker-1 grew from 80.0 to 86.0 MiB, by more than 5.0"]
    assert faults(figures() | {"broken": ["OSError()"]}) == ["OSError()"]


def test_what_a_run_found_is_told():
    assert "2 out of turn" in shown(figures(reader={"wrong": 2}))
    assert shown(figures()).endswith("Found: nothing.")


@pytest.mark.processes
def test_a_short_soak_kills_a_broker_and_loses_and_doubles_no_record():
    """Memory is not judged: caches are still filling."""
    ran = run(seconds=40.0, seed=1, note=print)
    assert ran["broken"] == []
    assert ran["kills"] >= 1
    assert ran["told"]["writer"]["acknowledged"] == sum(ran["told"]["writer"]["sent"]) > 1000
    assert ran["told"]["reader"]["read"] == ran["told"]["writer"]["sent"], ran["told"]
    assert ran["told"]["reader"]["wrong"] == 0, ran["told"]
    assert ran["told"]["passer-by"]["cancelled_read"] > 20, ran["told"]
    assert set(ran["growth"]) == {"controller", "broker-1", "writer", "reader", "passer-by"}
