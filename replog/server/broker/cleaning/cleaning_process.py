"""The process that cleans a broker's logs, and the broker's side of it.

The child reads requests from its standard input and writes answers to its standard output: pickles behind their length.
It ends with its input, and at once when its parent dies: otherwise two cleaners in one directory would write to each
other's files."""

import asyncio
import contextlib
import ctypes
import os
import pickle
import signal
import struct
import sys
from collections.abc import Sequence
from typing import BinaryIO

import structlog

from replog.log.compaction.cleaning import Cleaning, CleanTask, SourceSegment

log = structlog.get_logger()

CleaningRequest = CleanTask | Sequence[SourceSegment]
"""Begins a cleaning (`Cleaning.map_keys`): the answer is the offset up to which the log will be clean. Or goes on with
it (`Cleaning.rewrite`): the answer is 1 if a segment is to be swapped in, else 0."""

IDLE_S = 30.0  # then the child ends, and its memory is free
LENGTH = struct.Struct(">Q")
NICENESS = 5
_PR_SET_PDEATHSIG = 1


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
                __name__,
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


class Cleanings:
    def __init__(self) -> None:
        self._cleaning: Cleaning | None = None

    def carry_out(self, request: CleaningRequest) -> int:
        """Carry out a request. Raises as `Cleaning`."""
        if isinstance(request, CleanTask):
            self._cleaning = Cleaning(request)
            self._cleaning.map_keys()
            return self._cleaning.end_offset
        assert self._cleaning is not None, "the keys come first"
        return self._cleaning.rewrite(request) is not None


def main(parent: int) -> None:
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker gets the Ctrl-C, too, and ends this process
    os.nice(NICENESS)
    requests, answers, cleanings = sys.stdin.buffer, os.fdopen(os.dup(1), "wb"), Cleanings()
    os.dup2(2, 1)  # otherwise a print would be read as an answer
    while (request := _read(requests)) is not None:
        answer: object
        try:
            answer = cleanings.carry_out(request)
        except Exception as error:  # noqa: BLE001 (the parent raises it)
            answer = error
        data = pickle.dumps(answer)
        answers.write(LENGTH.pack(len(data)) + data)
        answers.flush()


def _read(stream: BinaryIO) -> CleaningRequest | None:
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    request: CleaningRequest = pickle.loads(stream.read(*LENGTH.unpack(head)))
    return request


def _die_with(parent: int) -> None:
    """Have Linux kill this process when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the broker has ended")


if __name__ == "__main__":
    main(int(sys.argv[1]))
