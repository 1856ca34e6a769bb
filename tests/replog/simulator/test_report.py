"""What many seeds came to."""

from replog.simulator.report import SeedTotals
from replog.simulator.simulation import SeedOutcome


def _totals() -> SeedTotals:
    totals = SeedTotals("storm", first_seed=7)
    one = SeedOutcome(7, "storm", virtual_s=30.0, steps=1000, acknowledged=5, faults={"kill a broker": 2}, cpu_s=0.5)
    other = SeedOutcome(8, "storm", "INV-5", "…", virtual_s=6.0, steps=200, faults={"kill a broker": 1}, cpu_s=0.1)
    one.longest_steps = {"Log.close": (0.02, "20 ms in Log.close"), "Log.roll": (0.015, "15 ms in Log.roll")}
    other.longest_steps = {"Log.close": (0.03, "30 ms in Log.close")}
    totals.add(one)
    totals.add(other)
    return totals


def test_totals_add_up_and_the_longest_waits_come_first():
    totals = _totals()
    figures = totals.figures()
    assert (figures["failed"], figures["simulated hours"], figures["events"]) == ("8", "0.01", "1,200")
    assert totals.plain()["faults"] == {"kill a broker": 3}
    assert totals.waits() == ["30 ms in Log.close (seed 8)", "15 ms in Log.roll (seed 7)"]
