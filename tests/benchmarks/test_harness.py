import os
import time

import pytest

from benchmarks.harness import CpuMeter, Latency, environment, quantile


def test_a_quantile_is_a_value_that_enough_do_not_exceed():
    values = list(range(1, 101))
    assert quantile(values, 0.5) == 50
    assert quantile(values, 0.99) == 99
    assert quantile([7.0], 0.99) == 7.0


def test_latencies_are_in_milliseconds():
    assert Latency.of([0.003, 0.001, 0.002]) == Latency(p50_ms=2.0, p99_ms=3.0, max_ms=3.0)
    with pytest.raises(ValueError, match="no record was acknowledged in that time"):
        Latency.of([])


def test_the_meter_sees_work_of_less_than_a_tick_of_the_clock():
    meter, until = CpuMeter({"me": os.getpid()}), time.process_time() + 0.002
    while time.process_time() < until:
        pass
    assert 0.002 <= meter.used()["me"] < 10


def test_the_environment_is_one_line():
    assert "\n" not in environment()
    assert "Python" in environment()
