"""One connection of a Kafka client: requests in, answers out in order; turns, mutes, and what lives as long as it."""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

from replog.kafka.frames import ServerFrames
from replog.log.offsets import Buffer
from replog.rpc.transport import TalkWire
from replog.server.broker.clients.quotas import MAX_THROTTLE_MS
from replog.server.broker.kafka.call import Call, Kept
from replog.server.broker.kafka.dispatch import AT_ONCE, TURN_S, Dispatcher, encoded, most_bytes

logger = logging.getLogger(__name__)


class KafkaTalk(ServerFrames):
    """`replog.rpc.transport.Talk`, and the `Line` of its calls."""

    places = pending = True  # `place` and `written` are always called

    def __init__(self, dispatcher: Dispatcher, wire: TalkWire) -> None:
        super().__init__(dispatcher.serves, most_bytes)
        self.kept: dict[str, Kept] = {}
        self.asks = wire.asks
        self.since_ms = 0
        self._dispatcher = dispatcher
        self._wire = wire
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._steps: Iterator[None] | None = None  # the request in hand has these left
        self._serving = False  # `_serve` is at work
        self._scheduled = False  # `_serve` is called in the next turn of the loop
        self._unmuting: asyncio.TimerHandle | None = None
        self._ended = self._lost = False  # no request is taken any more; nor is any answered

    def __str__(self) -> str:
        return ", ".join(sorted({task.get_name() for task in self._tasks}))

    # -- requests

    def receive(self, data: Buffer, now_ms: int = 0) -> None:
        if not self.held():
            self.since_ms = now_ms
        super().receive(data)
        self._serve()

    def landed(self, size: int, _now_ms: int = 0) -> None:
        super().landed(size)
        self._serve()

    def _serve(self) -> None:
        if not self._serving and not self._scheduled:
            self._serving = True
            self._handle_some()
            self._serving = False
        if self._lost:
            return
        self._wire.read(not self.waits and self._unmuting is None)
        if self.failure and not self.waits:
            self.hang_up(self.failure)

    def _handle_some(self) -> None:
        """Handle requests that have arrived, a few of them; others have their turn after it."""
        now_s, count = asyncio.get_running_loop().time, 0
        begun_s = now_s()
        while not self._lost and (self._steps is not None or self._may_take()):
            if self._steps is None:
                if (request := self.next()) is None:
                    break
                self._wire.idle_since = math.inf
                self._steps = self._dispatcher.begin(self, request, self._tasks)
            if self._steps is not None and next(self._steps, self) is self:
                self._steps = None
            count += 1
            if self._steps is not None or (self.waits and (count == AT_ONCE or now_s() - begun_s >= TURN_S)):
                self._go_on()
                break

    def _may_take(self) -> bool:
        if not self.waits or self._ended or self._unmuting is not None:
            return False
        return self._dispatcher.is_ready(self.next_key, self._go_on)

    def _go_on(self) -> None:
        if not self._scheduled and not self._lost:
            self._scheduled = True
            self._dispatcher.line_up(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        self._serve()

    # -- answers

    def settle(self, call: Call, response: Any | None, gone: Callable[[], None] | None) -> None:
        if self._lost:
            if gone is not None:
                gone()
            return
        try:
            pieces = None if response is None else encoded(call, response)
        except Exception:
            logger.exception("an answer of %s cannot be encoded", call.path)
            self.hang_up(f"the answer to its {call.path} is not one: a defect here")
            return
        self._dispatcher.ended(call, response)
        if call.throttle_ms:
            self._mute(call.throttle_ms)
        if self.answer(call.number, pieces, gone):
            self._wire.write()

    def _mute(self, ms: int) -> None:
        """Take nothing for so long (KIP-219)."""
        if self._unmuting is not None:
            self._unmuting.cancel()
        seconds = min(ms, MAX_THROTTLE_MS) / 1000
        self._unmuting = asyncio.get_running_loop().call_later(seconds, self._unmute)
        self._wire.read(False)

    def _unmute(self) -> None:
        self._unmuting = None
        self._serve()

    def written(self) -> None:
        while self.gone:
            self.gone.pop()()
        if self._lost:
            return
        if not self.busy():
            if self._ended:
                self._wire.drained()
            elif not math.isfinite(self._wire.idle_since):
                self._wire.idle_since = asyncio.get_running_loop().time()
        if self.waits:
            self._go_on()

    # -- the end

    def busy(self) -> bool:
        return self.under_way > 0

    def tasks(self) -> list[asyncio.Task[None]]:
        return list(self._tasks)

    def hang_up(self, why: str) -> None:
        if not self._lost:
            self._wire.hang_up(why)

    def drain(self) -> None:
        self._ended = True

    def close(self) -> None:
        self._ended = self._lost = True
        if self._unmuting is not None:
            self._unmuting.cancel()
        for task in self._tasks:
            task.cancel()
        self.drop()
        kept, self.kept = self.kept, {}
        for each in kept.values():
            each.close()
        self.written()
        del self._wire  # each refers to the other, and both would stay until the next full collection of garbage
