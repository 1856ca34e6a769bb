"""A daily line in the log when a process's certificate ends soon."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from replog.rpc.tasks import for_good
from replog.rpc.tls import Tls

DAY_S = 24 * 3600.0


@asynccontextmanager
async def looked_at_daily(tls: Tls | None) -> AsyncIterator[None]:
    """Look at the certificate's files every day, though nobody connects, until the end of the context."""
    if tls is None:
        yield
        return
    looking = for_good(_look(tls), "look at the certificate")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _look(tls: Tls) -> None:
    while True:
        await asyncio.sleep(DAY_S)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(tls.look)
        tls.warn_of_end()
