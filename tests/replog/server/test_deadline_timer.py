"""A timer rings by the nearest moment that it was asked for. In virtual time."""

import asyncio

from replog.server.deadline_timer import DeadlineTimer
from replog.simulator.runtime.clocks import ProcessClock
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess
from replog.simulator.runtime.rng import Rng


def test_it_rings_once_by_the_nearest_of_the_moments_and_not_when_cancelled():
    loop, rings = SimulatedLoop(Rng(1)), list[int]()

    async def ask() -> None:
        clock = ProcessClock(loop)
        began_ms = clock.monotonic_ms()
        timer = DeadlineTimer(clock, lambda: rings.append(clock.monotonic_ms() - began_ms))
        for in_ms in (9000, 20, None, 40):
            timer.by(None if in_ms is None else began_ms + in_ms)
        await asyncio.sleep(5)
        timer.by(began_ms)
        await asyncio.sleep(5)
        timer.by(clock.monotonic_ms() + 20)
        timer.cancel()
        await asyncio.sleep(5)

    task = loop.spawn(SimulatedProcess("broker"), ask())
    assert loop.run_until(task.done, 600)
    task.result()
    assert [20 <= rings[0] <= 30, 5000 <= rings[1] <= 5100, len(rings)] == [True, True, 2], rings
