"""What many seeds came to, where people look for it."""

from pathlib import Path

import pytest

from cluster.simulation.report import BEGIN, END, Totals, write_report
from cluster.simulation.simulation import Outcome
from replog.errors import ReplogError


def _totals() -> Totals:
    totals = Totals("storm", first_seed=7)
    one = Outcome(7, "storm", virtual_s=30.0, steps=1000, acknowledged=5, faults={"kill a broker": 2}, cpu_s=0.5)
    other = Outcome(8, "storm", "INV-5", "…", virtual_s=6.0, steps=200, faults={"kill a broker": 1}, cpu_s=0.1)
    one.longest_steps = {"Log.close": (0.02, "20 ms in Log.close"), "Log.roll": (0.015, "15 ms in Log.roll")}
    other.longest_steps = {"Log.close": (0.03, "30 ms in Log.close")}
    totals.add(one)
    totals.add(other)
    return totals


def test_figures_replace_those_between_the_markers_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    write_report(page, _totals(), "today")
    text = page.read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\nProfile `storm`, today:\n")
    assert text.endswith(f"{END}\n\nafter\n")
    assert "old" not in text
    for row in ("| failed | 8 |", "| simulated hours | 0.01 |", "| events | 1,200 |", "| kill a broker | 3 |"):
        assert row in text
    assert "\n- 30 ms in Log.close (seed 8)\n- 15 ms in Log.roll (seed 7)\n" in text
    write_report(page, _totals(), "today")
    assert page.read_text() == text


def test_a_page_without_a_place_for_figures_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Nothing\n")
    with pytest.raises(ReplogError, match="has no place for figures"):
        write_report(page, _totals(), "today")
