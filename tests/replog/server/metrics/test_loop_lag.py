"""How late the event loop is."""

import asyncio
import time

from replog.server.metrics.loop_lag import EVERY_S, measure
from replog.server.metrics.times import Times

HELD_S = 0.5


def hold():
    time.sleep(HELD_S)


async def test_what_is_due_while_a_step_runs_is_late_by_what_is_left_of_it():
    lag = Times()
    measuring = asyncio.create_task(measure(lag))
    await asyncio.sleep(EVERY_S / 10)
    hold()
    async with asyncio.timeout(60):
        while not lag.count:
            await asyncio.sleep(0)
    measuring.cancel()
    assert lag.sum_ms >= 1000 * (HELD_S - EVERY_S)
