"""The benchmark of the purgatory runs, small, and every timer comes out of it with figures."""

import pytest

from benchmarks.purgatory import AT_ONCE, TIMERS, run

pytestmark = pytest.mark.processes


def test_every_timer_has_all_its_figures() -> None:
    report = run(2000, rounds=1, note=lambda _: None)
    assert [figures["timer"] for figures in report["timers"]] == list(TIMERS)
    for figures in report["timers"]:
        assert min(figures[phase] for phase in ("fill_ns", "mix_ns", "cancel_ns", "expire_ns")) > 0, figures
        assert figures["worst_pause_ms"] > 0, figures
    assert len(report["whole_path"]) == (len(TIMERS) - 1) * len(AT_ONCE)
    assert all(path["ns"] > 0 for path in report["whole_path"])
