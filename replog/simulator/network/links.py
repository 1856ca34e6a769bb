"""One direction between two simulated hosts: it delays, loses and repeats messages, and holds them while blocked."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replog.simulator.runtime.loop import KERNEL, SimulatedLoop
from replog.simulator.runtime.process import DEAD, PROCESS
from replog.simulator.runtime.rng import Rng

RETRANSMITTED_S = 0.2, 1.0  # the further delay of a stream's packet that was lost
REPEATED_LATE = 0.5  # the share of requests that arrive again on a link that repeats
OVERTAKEN = 10.0  # a reordered message takes at most this many times the longest delay


@dataclass(frozen=True, slots=True)
class Weather:
    """The network's everyday faults; each is the probability for one message. By default it is fast and in order."""

    delay_ms: tuple[float, float] = (0.2, 1.0)
    drop: float = 0.0  # a unary message is lost; one of a stream is late, since TCP sends it again
    duplicate: float = 0.0  # a unary request arrives twice
    reorder: float = 0.0  # a unary message takes so long that others overtake it; streams keep their order


Arrival = tuple[Callable[..., None], tuple[Any, ...]]


class Order:
    """Keeps the messages of one direction of a stream in order, and drops some when the connection breaks."""

    __slots__ = ("in_flight", "last", "survivors")

    def __init__(self) -> None:
        self.in_flight: deque[Arrival] = deque()  # the first is the next to arrive
        self.last = 0.0  # the time at which the last one arrives
        self.survivors = -1  # the number of those in flight that still arrive after a break; -1: no break

    def cut(self, rng: random.Random) -> None:
        if self.survivors < 0:
            self.survivors = rng.randint(0, len(self.in_flight))


class Air:
    """The state that all links share.

    `on_event(process, event, **details)` is called for each fault, `on_message` for each message. `counts` has the
    numbers of messages that were dropped, duplicated, reordered, delayed (in streams) and blocked, and of calls and
    streams that were broken."""

    def __init__(self, loop: SimulatedLoop, rng: Rng) -> None:
        self.loop = loop
        self.rng = rng
        self.weather = Weather()
        self.counts: dict[str, int] = {}
        self.on_event: Callable[..., None] | None = None
        self.on_message: Callable[..., None] | None = None

    def count(self, kind: str, source: str, target: str, **details: Any) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.tell(source, kind, to=target, **details)

    def tell(self, source: str, event: str, **details: Any) -> None:
        if self.on_event is not None:
            self.on_event(source, f"network: {event}", **details)


class Link:
    """The way from `source` to `target`, which are names of processes, and stay the same after a restart."""

    def __init__(self, air: Air, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.rng = air.rng.stream(f"the link from {source} to {target}")
        self.blocked = False
        self.blocks = 0  # the number of times it was blocked
        self.slow_ms = (0.0, 0.0)  # the least and most that is added to the usual delay
        self.repeats_s = 0.0  # a repeated request arrives again within this time
        self._air = air
        self._draw = self.rng.random
        self._held: list[Order | Arrival] = []

    @property
    def sound(self) -> bool:
        """True if messages arrive as soon as usual."""
        return not self.blocked and self.slow_ms == (0.0, 0.0)

    def delay_s(self) -> float:
        low, high = self._air.weather.delay_ms
        delay_ms = low + self._draw() * (high - low)
        low, high = self.slow_ms
        if high:
            delay_ms += low + self._draw() * (high - low)
        return delay_ms / 1000

    def post(self, what: str, deliver: Callable[..., None], *args: Any, request: bool = False) -> None:
        """Send a unary message, which may be lost or late; a request may also arrive twice."""
        air, weather = self._air, self._air.weather
        if _dead():
            return
        if air.on_message is not None:
            air.on_message(self.source, "network: message", to=self.target, what=what)
        if weather.drop and self._draw() < weather.drop:
            air.count("dropped", self.source, self.target, what=what)
            return
        if request and weather.duplicate and self._draw() < weather.duplicate:
            air.count("duplicated", self.source, self.target, what=what)
            self._arrive_in(self.delay_s() * (1 + self._draw() * OVERTAKEN), (deliver, args))
        if request and self.repeats_s and self._draw() < REPEATED_LATE:
            air.count("repeated late", self.source, self.target, what=what)
            self._arrive_in(self._draw() * self.repeats_s, (deliver, args))
        delay_s = self.delay_s()
        if weather.reorder and self._draw() < weather.reorder:
            air.count("reordered", self.source, self.target, what=what)
            delay_s += self._draw() * OVERTAKEN * weather.delay_ms[1] / 1000
        self._arrive_in(delay_s, (deliver, args))

    def post_in_order(self, order: Order, what: str, deliver: Callable[..., None], *args: Any) -> None:
        """Send a message of a stream; after a break it is lost."""
        air = self._air
        if _dead() or order.survivors >= 0:
            return
        if air.on_message is not None:
            air.on_message(self.source, "network: message", to=self.target, what=what)
        order.in_flight.append((deliver, args))
        delay_s = self.delay_s()
        if air.weather.drop and self._draw() < air.weather.drop:
            air.count("delayed", self.source, self.target, what=what)
            delay_s += self.rng.uniform(*RETRANSMITTED_S)
        self._arrive_in(delay_s, order)

    def _arrive_in(self, delay_s: float, message: Order | Arrival) -> None:
        """Let one message arrive, or the next one of a stream."""
        when = self._air.loop.time() + delay_s
        if isinstance(message, Order):
            if when <= message.last:
                when = message.last + (1 + self._draw()) * 1e-6
            message.last = when
        self._air.loop.call_at(when, self._arrive, message, context=KERNEL)

    def _arrive(self, message: Order | Arrival) -> None:
        if self.blocked:
            self._air.count("blocked", self.source, self.target)
            self._held.append(message)
            return
        if isinstance(message, Order):
            deliver, args = message.in_flight.popleft()
            if message.survivors == 0:
                return
            if message.survivors > 0:
                message.survivors -= 1
        else:
            deliver, args = message
        deliver(*args)

    def hold(self, deliver: Callable[..., None], *args: Any) -> None:
        """If the link is blocked, deliver this once it is healed; otherwise do nothing."""
        if self.blocked:
            self._held.append((deliver, args))

    def block(self) -> None:
        self.blocked = True
        self.blocks += 1

    def heal(self) -> None:
        """Unblock the link; messages that waited arrive now."""
        self.blocked = False
        held, self._held = self._held, []
        for message in held:
            self._arrive_in(self.delay_s(), message)


def _dead() -> bool:
    """Return True if the sender is a process that has died in this very callback."""
    process = PROCESS.get(None)
    return process is not None and process.state is DEAD
