"""How late the event loop does what is due: what a request waits for before anybody looks at it."""

import asyncio
from time import monotonic

from replog.server.metrics.times import Times

EVERY_S = 0.1


async def measure(lag: Times) -> None:
    """Until cancelled."""
    while True:
        due_s = monotonic() + EVERY_S
        await asyncio.sleep(EVERY_S)
        now_s = monotonic()
        lag.add((now_s - due_s) * 1000, now_s)
