"""Simulated clocks."""

from replog.server.clock import Clock
from replog.simulator.runtime.clocks import WALL_START_MS, ProcessClock
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.rng import Rng


def test_a_clock_has_its_own_start_and_rate_and_its_wall_clock_jumps():
    loop = SimulatedLoop(Rng(1))
    process_clock = ProcessClock(loop, offset_ms=5000, rate=1.01, skew_ms=-300)
    clock: Clock = process_clock
    assert (clock.monotonic_ms(), clock.wall_ms()) == (5000, WALL_START_MS - 300)
    loop.run_until(10.0)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (15_100, WALL_START_MS + 9800)
    process_clock.jump(-60_000)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (15_100, WALL_START_MS - 50_200)
