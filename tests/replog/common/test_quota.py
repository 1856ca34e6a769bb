"""Replication throttles (KIP-73): how much has passed of late, against a rate."""

import pytest

from replog.common.quota import MAX_RATES, ReplicationQuota, Throttles, is_listed

RATE = 1000  # bytes per second


@pytest.fixture
def quota() -> ReplicationQuota:
    return ReplicationQuota(RATE, windows=11, window_ms=1000)


@pytest.mark.parametrize(
    ("replicas", "listed"),
    [("", []), ("*", [(0, 1), (0, 2), (10, 1)]), ("0:1", [(0, 1)]), ("10:1,0:2", [(0, 2), (10, 1)]), ("0:12", [])],
)
def test_a_list_names_replicas_by_partition_and_broker(replicas, listed):
    assert [place for place in ((0, 1), (0, 2), (10, 1)) if is_listed(replicas, *place)] == listed


def test_nothing_has_passed_nothing_is_exceeded(quota):
    assert not quota.is_exceeded(0)
    quota.rate = 0
    assert not quota.is_exceeded(0)
    quota.record(1, 0)
    assert quota.is_exceeded(0)


def test_the_rate_itself_is_allowed_and_what_is_above_waits_for_time_to_pass(quota):
    quota.record(1000, 5000)
    assert not quota.is_exceeded(5000)
    quota.record(2000, 5010)
    assert quota.is_exceeded(5010)
    assert quota.is_exceeded(7999)
    assert not quota.is_exceeded(8000), "3000 bytes in 3 s"


def test_bytes_after_a_long_silence_are_not_spread_over_it(quota):
    quota.record(1, 0)
    quota.record(1001, 60_000)
    assert quota.is_exceeded(60_000)


def test_windows_that_are_over_are_forgotten(quota):
    quota.record(1_000_000, 0)
    quota.record(10, 10_500)
    assert quota.is_exceeded(10_999)
    assert not quota.is_exceeded(11_000)


def test_the_memory_is_bounded_by_the_windows(quota):
    for now_ms in range(0, 100_000, 7):
        quota.record(1, now_ms)
    assert len(quota._samples) <= 11


def test_a_new_rate_holds_at_once(quota):
    quota.record(5000, 0)
    quota.rate = 5000
    assert not quota.is_exceeded(0)


def test_whoever_asks_before_each_chunk_keeps_to_the_rate(quota):
    """By the millisecond and over a minute: never a chunk more than the rate, nor much less."""
    passed = 0
    for now_ms in range(60_000):
        if not quota.is_exceeded(now_ms):
            quota.record(100, now_ms)
            passed += 100
        assert passed <= RATE * max(now_ms, 1000) / 1000 + 1100, now_ms
    assert passed == pytest.approx(60 * RATE, rel=0.05)


def test_moves_of_a_rate_share_a_quota_and_some_rates_are_counted_at_a_time():
    throttles = Throttles(RATE, windows=11, window_ms=1000)
    slow = throttles.of_moves(5)
    slow.record(1000, 0)
    assert throttles.of_moves(5) is slow
    assert throttles.exceeded(0) == {slow}
    for rate in range(10, 10 + MAX_RATES):
        throttles.of_moves(rate)
    assert throttles.of_moves(5) is not slow
    assert throttles.exceeded(0) == set()
