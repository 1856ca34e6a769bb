"""The broker's side of the process that cleans its logs."""

import asyncio
import contextlib
import os
import pickle
import sys

import structlog

from replog.server.broker.cleaning import cleaning_child
from replog.server.broker.cleaning.cleaning_child import LENGTH, CleaningRequest

log = structlog.get_logger()

IDLE_S = 30.0  # then the child ends, and its memory is free


class CleaningInterrupted(Exception):
    """The cleaning process has ended, or could not be started. The next cleaning removes its files."""


class CleaningProcess:
    """A child at low priority, started when it is needed. It takes one request at a time.

    Cleaning is long work in Python: in a thread of the broker it would take the interpreter from the event loop."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def ask(self, request: CleaningRequest) -> int:
        """Ask the child, and return its answer. Raises the error of the cleaning, CleaningInterrupted if the child
        ends. A cancellation ends the child."""
        if self._idle is not None:
            self._idle.cancel()
        child = self._child or await self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            data = pickle.dumps(request)
            child.stdin.write(LENGTH.pack(len(data)) + data)
            await child.stdin.drain()
            (size,) = LENGTH.unpack(await child.stdout.readexactly(LENGTH.size))
            answer = pickle.loads(await child.stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            await self.close()
            raise CleaningInterrupted(
                f"the cleaning process {child.pid} ended with status {child.returncode}"
            ) from None
        except asyncio.CancelledError:
            await self.close()
            raise
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                cleaning_child.__name__,
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:  # no memory, process or descriptor is left; otherwise a log's disk would be blamed
            raise CleaningInterrupted(f"the cleaning process cannot be started: {error}") from error
        log.info("cleaning process started", pid=self._child.pid)
        return self._child

    def _end(self) -> asyncio.subprocess.Process | None:
        child, self._child = self._child, None
        if self._idle is not None:
            self._idle.cancel()
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()  # does no harm: nobody reads its `.cleaned` files
        return child

    async def close(self) -> None:
        """End the child, and wait until it is gone."""
        child = self._end()
        if child is not None:
            await child.wait()
