"""The messages of one stream, both ways. One task reads, or has a function called with each message, and one sends."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from replog.errors import ReplogError
from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.frames import CANCEL
from replog.rpc.transport import Handle

MAX_WAITING = 64 << 10  # posted bytes that wait; beyond them a stream is not read from
STEP_S = 0.005  # the time for messages in one turn of the loop; others wait
TAKEN_AT_ONCE = 50  # a reader that never has to wait lets others run after so many messages


class MessageStream:
    def __init__(self, http2: Connection, stream_id: int, write_soon: Callable[[], None]) -> None:
        """`write_soon` is called when the connection may have something to send that can wait for the end of the turn
        of the loop."""
        self.stream_id = stream_id
        self.over = False  # nothing more comes; received messages can still be read
        self.failure: ReplogError | None = None  # the reason why it is over, if that is wrong
        self.waits = False  # the last message had to wait: look again
        self._http2 = http2
        self._write_soon = write_soon
        self._received: deque[bytes] = deque()
        self._taken = 0  # so many since others had their turn
        self._reading: asyncio.Future[None] | None = None
        self._handle: Handle | None = None  # the function of `each`
        self._steps: Iterator[None] | None = None  # steps that are left of the message in hand
        self._ready: Callable[[], bool]
        self._handling = False  # `_hand_over` is at work
        self._scheduled = False  # it is called in the next turn of the loop
        self._sending: asyncio.Future[None] | None = None

    def on_message(self, payload: bytes, *, late: bool = False) -> None:
        """`late`: other messages have taken all the time of this turn of the loop."""
        self._received.append(payload)
        if self._handle is not None:
            if late:
                self.go_on()
            elif len(self._received) == 1 and not self._scheduled:  # otherwise earlier ones wait for their turn
                self._hand_over()
            return
        reading = self._reading
        if reading is not None and not reading.done():
            reading.set_result(None)

    def on_over(self, failure: ReplogError | None = None) -> None:
        """End the messages, with a failure if that is wrong. Only the first call counts."""
        if not self.over:
            self.over, self.failure = True, failure
            if self._handle is None or not (self._steps or self._received):
                _wake(self._reading)
        _wake(self._sending)

    def on_writable(self) -> None:
        _wake(self._sending)
        self.go_on()

    async def next(self, timeout_s: float | None = None) -> bytes | None:
        """Return the next message; None when no more come. Raises the failure, and TimeoutError."""
        self._taken += 1
        if self._taken == TAKEN_AT_ONCE:
            self._taken = 0
            await asyncio.sleep(0)
        while not self._received:
            if self.over:
                self._raise_failure()
                return None
            self._reading = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(timeout_s):
                await self._reading
        payload = self._received.popleft()
        if self._http2.consumed(self.stream_id, len(payload)):
            self._write_soon()
        return payload

    async def each(self, handle: Handle, ready: Callable[[], bool]) -> None:
        """Call `handle` with each message, received already or later, while `ready`. Return when no more come; raise
        the failure, or the error of `handle`."""
        self._handle, self._ready = handle, ready
        reading = self._reading = asyncio.get_running_loop().create_future()
        try:
            self._hand_over()
            await reading
        finally:
            self._handle = self._reading = self._steps = None
            del reading  # otherwise its error holds itself, and messages, by the frames of its traceback
        self._raise_failure()

    def go_on(self) -> None:
        if (self._steps or self._received) and self._handle is not None and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._hand_over)  # its caller is in the middle of something

    def _hand_over(self) -> None:
        self._scheduled = False
        if self._handling:  # a handler has called this, and the loop below goes on
            return
        self._handling, begun_s = True, monotonic()
        try:
            while (handle := self._handle) is not None and (self._steps or (self._received and self._ready())):
                if self._steps is None:
                    payload = self._received.popleft()
                    if self._http2.consumed(self.stream_id, len(payload)):
                        self._write_soon()
                    self._steps = handle(payload)
                if self._steps is not None and next(self._steps, self) is self:
                    self._steps = None
                if self._steps is not None or (self._received and monotonic() - begun_s >= STEP_S):
                    self.go_on()
                    break
        except Exception as error:  # noqa: BLE001 (it ends the call, not the connection)
            self._handle = None
            if self._reading is not None and not self._reading.done():
                self._reading.set_exception(error)
        finally:
            self._handling = False
        if self.over and not (self._steps or self._received):
            _wake(self._reading)

    def _raise_failure(self) -> None:
        if (failure := self.failure) is not None:
            # a new error keeps no frames of others
            raise ReplogError(failure.code, failure.message, failure.instead)

    def send(self, pieces: Sequence[Buffer], end: bool = False) -> None:
        """Send. If it has to wait, a sender writes what can be written, and calls `all_gone`."""
        self.waits = self._http2.send_message(self.stream_id, pieces, end) > 0

    @property
    def must_wait(self) -> bool:
        return self._http2.waiting(self.stream_id) > MAX_WAITING

    async def all_gone(self) -> None:
        """Wait until all that was sent has gone out, or cannot: the last byte keeps the whole answer in memory."""
        while self._http2.waiting(self.stream_id):
            self._sending = asyncio.get_running_loop().create_future()
            await self._sending

    def drop(self) -> None:
        """Drop the messages that nobody reads any more."""
        while self._received:
            if self._http2.consumed(self.stream_id, len(self._received.popleft())):
                self._write_soon()

    def give_up(self, failure: ReplogError | None, code: int = CANCEL) -> None:
        """Close the stream now, on both sides."""
        self._http2.reset(self.stream_id, code)
        self.drop()
        self.on_over(failure)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
