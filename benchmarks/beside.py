"""A separate process that measures or attacks for a benchmark, otherwise the benchmark's own work would be in figures.

It prints a line `ready`, takes one order a line on stdin, a name and its arguments as JSON, and answers each with a
line of figures, as JSON.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Self

TIMEOUT_S = 300.0  # the limit for its start and for each order, even on a busy machine
_LONGEST_LINE = 16 << 20  # bytes
_READY = "ready"

Figures = dict[str, Any]


async def answer_orders(**orders: Callable[..., Awaitable[Figures]]) -> None:
    """Take orders in the process itself, until stdin ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print(_READY, flush=True)
    while line := (await lines.readline()).decode():
        name, _, arguments = line.partition(" ")
        print(json.dumps(await orders[name](**json.loads(arguments))), flush=True)


class Beside:
    """The separate process as the benchmark sees it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def program(cls, name: str, command: Sequence[str]) -> AsyncIterator[Self]:
        """Run a program that takes orders, and wait until it is ready. Raises OSError if it ends by itself."""
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LONGEST_LINE
        )
        beside = cls(name, process)
        try:
            await beside._line()
            yield beside
            if process.returncode is not None:
                raise OSError(f"{name} ended with status {process.returncode}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def order(self, name: str, **arguments: object) -> Figures:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name} {json.dumps(arguments)}\n".encode())
        figures: Figures = json.loads(await self._line())
        return figures

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT_S):
            line = await self._process.stdout.readline()
            if not line:
                raise OSError(f"{self._name} ended with status {await self._process.wait()}")
        return line
