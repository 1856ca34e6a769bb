"""The lag of the event loop: how long a request waits before it is looked at."""

import asyncio
from time import monotonic

from replog.server.metrics.times import Times

EVERY_S = 0.1


async def measure(lag: Times) -> None:
    """Measure until cancelled."""
    while True:
        due_s = monotonic() + EVERY_S
        await asyncio.sleep(EVERY_S)
        now_s = monotonic()
        lag.add((now_s - due_s) * 1000, now_s)
