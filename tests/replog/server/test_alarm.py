"""An alarm rings by the nearest moment that it was asked for. In virtual time."""

import asyncio

from replog.server.alarm import Alarm
from replog.simulator.runtime.chance import Chance
from replog.simulator.runtime.clocks import ProcessClock
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess


def test_it_rings_once_by_the_nearest_of_the_moments_and_not_when_cancelled():
    loop, rings = SimulatedLoop(Chance(1)), list[int]()

    async def ask() -> None:
        clock = ProcessClock(loop)
        began_ms = clock.monotonic_ms()
        alarm = Alarm(clock, lambda: rings.append(clock.monotonic_ms() - began_ms))
        for in_ms in (9000, 20, None, 40):
            alarm.by(None if in_ms is None else began_ms + in_ms)
        await asyncio.sleep(5)
        alarm.by(began_ms)
        await asyncio.sleep(5)
        alarm.by(clock.monotonic_ms() + 20)
        alarm.cancel()
        await asyncio.sleep(5)

    task = loop.spawn(SimulatedProcess("broker"), ask())
    assert loop.run_until(task.done, 600)
    task.result()
    assert [20 <= rings[0] <= 30, 5000 <= rings[1] <= 5100, len(rings)] == [True, True, 2], rings
