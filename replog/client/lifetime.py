"""A client may not be used once it is closed, nor in a child of its process; and what it logs when a call waits."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

from replog.errors import ErrorCode
from replog.rpc.tasks import notify_of_forks

logger = logging.getLogger(__name__)

LONG_S = 2.0


class Lifetime:
    def __init__(self, what: str) -> None:
        self.refusal = ""  # why the client may not be used; "" while it may
        self.is_copy = False  # this process is a child, after a fork
        self._what = what
        self._ending: asyncio.Task[None] | None = None
        notify_of_forks(self)

    def forked(self) -> None:
        self.is_copy = True
        self.refusal = f"this {self._what} is its parent process's, from before the fork; make a new one in the child"

    def check(self, closed_too: bool = True) -> None:
        """Raises INVALID_REQUEST if the client may not be used."""
        if self.refusal and (closed_too or self.is_copy):
            raise ErrorCode.INVALID_REQUEST.error(self.refusal)

    def close(self) -> None:
        self.refusal = self.refusal or f"the {self._what} is closed; make another one"

    async def end(self, end: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run `end` once and wait for it. It goes on if the caller is cancelled. In a child do nothing."""
        if not self.is_copy:
            if self._ending is None:
                self._ending = asyncio.create_task(end())
            await asyncio.shield(self._ending)


@asynccontextmanager
async def warn_if_long(what: Callable[[], str]) -> AsyncIterator[None]:
    timer = asyncio.get_running_loop().call_later(LONG_S, lambda: logger.warning("%s", what()))
    try:
        yield
    finally:
        timer.cancel()
