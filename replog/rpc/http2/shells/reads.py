"""The buffer into which an event loop's sockets are read, one at a time, and the queue of sockets that bring much.

The loop reads once from every socket that has something. Of thirty that have a lot, each would wait for megabytes of
the others, and so would all small messages beside them. So sockets that bring much queue up, and one of them is read in
each turn of the loop. All others are read in every turn."""

import asyncio
from collections import deque
from functools import cached_property
from typing import Protocol

READ_BYTES = 272 << 10  # one read: a frame of 256 KiB, and what is around it
MUCH_BYTES = 64 << 10
LITTLE_BYTES = 16 << 10  # one read, once a socket brought much in this turn


class Read(Protocol):
    """A connection, or its transport."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Reads:
    def __init__(self) -> None:
        self._all = memoryview(bytearray(READ_BYTES))
        self._little = self._all[:LITTLE_BYTES]
        self.room = self._all  # the next read goes there
        self.much = MUCH_BYTES
        self._line: deque[Read] = deque()  # not read from meanwhile
        self.count = 0  # reads so far: a second write at the same count waits for the end of the turn
        self._counting = False
        self._last: Read | None = None  # the last that brought much; alone it does not wait

    @cached_property
    def plain(self) -> memoryview:
        """The buffer for the plain text of a sealed read."""
        return memoryview(bytearray(READ_BYTES))

    def brought_much(self, transport: Read) -> None:
        """The last read had `much` bytes or more: queue its socket."""
        if transport is self._last and not self._line:
            return
        self._last = transport
        self._line.append(transport)
        transport.pause_reading()
        self.room, self.much = self._little, LITTLE_BYTES
        self._count_turns()

    def _count_turns(self) -> None:
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._counting = False
        self.room, self.much = self._all, MUCH_BYTES
        if self._line:
            self._line.popleft().resume_reading()
        if self._line:
            self._count_turns()
