"""A process that measures, or attacks, beside a benchmark, so that no other work of the benchmark is in its figures.

It prints a line `ready`, takes one order a line on stdin, and answers each with a line of figures, as JSON.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

TIMEOUT_S = 120.0  # until it is ready, and for an order: an attack takes long to get under way
_READY = "ready"

Figures = dict[str, Any]


async def answer_orders(**orders: Callable[[], Awaitable[Figures]]) -> None:
    """In the process itself, until stdin ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print(_READY, flush=True)
    while order := (await lines.readline()).decode().strip():
        print(json.dumps(await orders[order]()), flush=True)


class Beside:
    """The process, seen from the benchmark."""

    def __init__(self, module: str, process: asyncio.subprocess.Process) -> None:
        self._module = module
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, module: str, *arguments: str) -> AsyncIterator[Self]:
        """Once it is ready: its own start is in no figure. Raises OSError if it ends by itself."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        beside = cls(module, process)
        try:
            await beside._line()
            yield beside
            if process.returncode is not None:
                raise OSError(f"{module} ended with status {process.returncode}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def order(self, name: str) -> Figures:
        """What it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n".encode())
        figures: Figures = json.loads(await self._line())
        return figures

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT_S):
            line = await self._process.stdout.readline()
            if not line:
                raise OSError(f"{self._module} ended with status {await self._process.wait()}")
        return line
