"""A line in the log when a call waits for long."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

LONG_S = 2.0

logger = logging.getLogger(__name__)


@asynccontextmanager
async def told_if_long(what: Callable[[], str]) -> AsyncIterator[None]:
    timer = asyncio.get_running_loop().call_later(LONG_S, lambda: logger.warning("%s", what()))
    try:
        yield
    finally:
        timer.cancel()
