"""Quantiles of what took how long, lately."""

import pytest

from replog.server.metrics.families import BUCKETS, LEAST_MS, QUANTILES, STEP, WINDOW_S, Times


def median(times: Times, now_s: float) -> float:
    return times.quantiles(now_s)[QUANTILES.index(0.5)]


@pytest.mark.parametrize("ms", [0.02, 0.5, 1.0, 7.3, 1000.0, 100_000.0])
def test_a_time_is_told_within_a_step(ms):
    times = Times()
    times.add(ms, 1.0)
    assert ms / STEP <= median(times, 2.0) <= ms * STEP


def test_quantiles_are_in_order_and_where_they_belong():
    times = Times()
    for ms in range(1, 1001):
        times.add(float(ms), 1.0)
    found = times.quantiles(1.0)
    assert found == sorted(found)
    for quantile, ms in zip(QUANTILES, found, strict=True):
        assert ms == pytest.approx(1000 * quantile, rel=0.06)
    assert times.count == 1000


def test_what_is_longer_ago_than_two_windows_counts_no_more():
    times = Times()
    times.add(100.0, 0.0)
    assert median(times, WINDOW_S) > 0
    assert median(times, 2 * WINDOW_S + 1) == 0
    assert times.count == 1
    times.add(100.0, 5 * WINDOW_S)
    assert median(times, 5 * WINDOW_S) > 0


def test_no_time_is_too_short_or_too_long():
    times = Times()
    for ms in (0.0, LEAST_MS, LEAST_MS * STEP ** (2 * BUCKETS)):
        times.add(ms, 0.0)
    assert times.quantiles(0.0)[0] == pytest.approx(LEAST_MS * STEP**0, rel=0.06)
