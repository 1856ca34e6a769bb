"""A process that measures beside a benchmark, so that no other work of the benchmark is in its figures.

It prints a line `ready`, measures between a line `go` and a line `tell` on stdin, and prints what it found, as JSON.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

READY_TIMEOUT_S = 60.0
TELL_TIMEOUT_S = 20.0
_READY = "ready"

Figures = dict[str, Any]


async def answer_orders(go: Callable[[], None], tell: Callable[[], Awaitable[Figures]]) -> None:
    """In the process itself, until stdin ends."""
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    print(_READY, flush=True)
    while order := (await orders.readline()).strip():
        if order == b"go":
            go()
        else:
            print(json.dumps(await tell()), flush=True)


class Beside:
    """The process, seen from the benchmark."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, module: str, *arguments: str) -> AsyncIterator[Self]:
        """Once it is ready: its own start is in no figure."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                line = (await process.stdout.readline()).decode().strip()
            if line != _READY:
                raise OSError(f"{module} did not start")
            yield cls(process)
        finally:
            process.kill()
            await process.wait()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    async def tell(self) -> Figures:
        """What it found since `go`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"tell\n")
        async with asyncio.timeout(TELL_TIMEOUT_S):
            figures: Figures = json.loads(await self._process.stdout.readline())
        return figures
