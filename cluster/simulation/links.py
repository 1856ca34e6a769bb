"""One direction between two simulated hosts: how long what is sent takes, what gets lost, what waits while blocked."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cluster.simulation.loop import KERNEL
from cluster.simulation.process import DEAD, PROCESS

if TYPE_CHECKING:
    from cluster.simulation.network import Network

RETRANSMITTED_S = 0.2, 1.0  # how much later a packet of a stream arrives that was lost
REPEATED_LATE = 0.5  # how many requests, where some are
OVERTAKEN = 10.0  # a message that others overtake takes up to so many times the longest delay


class Weather(Protocol):
    """The network's everyday faults; each probability is that of one message."""

    @property
    def delay_ms(self) -> tuple[float, float]: ...

    @property
    def drop(self) -> float:
        """A unary message is lost; one of a stream is late, since TCP sends it again."""

    @property
    def duplicate(self) -> float:
        """A unary request arrives twice."""

    @property
    def reorder(self) -> float:
        """A unary message takes so long that others overtake it; those of a stream keep their order."""


@dataclass(frozen=True, slots=True)
class Calm:
    """Fast, and nothing goes wrong."""

    delay_ms: tuple[float, float] = (0.2, 1.0)
    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0


Delivery = tuple[Callable[..., None], tuple[Any, ...]]


class Order:
    """What keeps the messages of one direction of a stream in order, and cuts them off when the connection breaks."""

    __slots__ = ("in_flight", "last", "survivors")

    def __init__(self) -> None:
        self.in_flight: deque[Delivery] = deque()  # whatever arrives first is the first of them
        self.last = 0.0  # when the latest arrives
        self.survivors = -1  # once broken: how many of those in flight still arrive

    def cut(self, chance: random.Random) -> None:
        if self.survivors < 0:
            self.survivors = chance.randint(0, len(self.in_flight))


class Link:
    """From `source` to `target`, which are names of processes and outlive them."""

    def __init__(self, network: "Network", source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.chance = network.chance.stream(f"the link from {source} to {target}")
        self.blocked = False
        self.blocks = 0  # how often it was
        self.slow_ms = (0.0, 0.0)  # on top of the usual
        self.repeats_s = 0.0  # up to so much later many a request arrives again
        self._loop = network.loop
        self._network = network
        self._draw = self.chance.random
        self._held: list[Order | Delivery] = []

    @property
    def sound(self) -> bool:
        """Whether what is sent arrives, as soon as usual."""
        return not self.blocked and self.slow_ms == (0.0, 0.0)

    def delay_s(self) -> float:
        low, high = self._network.weather.delay_ms
        delay_ms = low + self._draw() * (high - low)
        low, high = self.slow_ms
        if high:
            delay_ms += low + self._draw() * (high - low)
        return delay_ms / 1000

    def post(self, what: str, deliver: Callable[..., None], *args: Any, request: bool = False) -> None:
        """A unary message: it may be lost, late or, a request, arrive twice."""
        network = self._network
        if _dead():
            return
        if network.on_message is not None:
            network.on_message(self.source, "network: message", to=self.target, what=what)
        weather = network.weather
        if weather.drop and self._draw() < weather.drop:
            network.count("dropped", self.source, self.target, what=what)
            return
        if request and weather.duplicate and self._draw() < weather.duplicate:
            network.count("duplicated", self.source, self.target, what=what)
            self._arrive_in(self.delay_s() * (1 + self._draw() * OVERTAKEN), (deliver, args))
        if request and self.repeats_s and self._draw() < REPEATED_LATE:
            network.count("repeated late", self.source, self.target, what=what)
            self._arrive_in(self._draw() * self.repeats_s, (deliver, args))
        delay_s = self.delay_s()
        if weather.reorder and self._draw() < weather.reorder:
            network.count("reordered", self.source, self.target, what=what)
            delay_s += self._draw() * OVERTAKEN * weather.delay_ms[1] / 1000
        self._arrive_in(delay_s, (deliver, args))

    def post_in_order(self, order: Order, what: str, deliver: Callable[..., None], *args: Any) -> None:
        """A message of a stream: after a break it is lost, and some of those before it too."""
        network = self._network
        if _dead() or order.survivors >= 0:
            return
        if network.on_message is not None:
            network.on_message(self.source, "network: message", to=self.target, what=what)
        order.in_flight.append((deliver, args))
        delay_s = self.delay_s()
        if network.weather.drop and self._draw() < network.weather.drop:
            network.count("delayed", self.source, self.target, what=what)
            delay_s += self.chance.uniform(*RETRANSMITTED_S)
        self._arrive_in(delay_s, order)

    def _arrive_in(self, delay_s: float, message: Order | Delivery) -> None:
        """One message, or the next one of a stream."""
        when = self._loop.time() + delay_s
        if isinstance(message, Order):
            if when <= message.last:
                when = message.last + (1 + self._draw()) * 1e-6
            message.last = when
        self._loop.call_at(when, self._arrive, message, context=KERNEL)

    def _arrive(self, message: Order | Delivery) -> None:
        if self.blocked:
            self._network.count("blocked", self.source, self.target)
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
        """While it is blocked: this arrives once that is healed."""
        if self.blocked:
            self._held.append((deliver, args))

    def block(self) -> None:
        self.blocked = True
        self.blocks += 1

    def heal(self) -> None:
        """What waited arrives, late."""
        self.blocked = False
        held, self._held = self._held, []
        for message in held:
            self._arrive_in(self.delay_s(), message)


def _dead() -> bool:
    """Whether it is a process that sends this, and has died within this very callback."""
    process = PROCESS.get(None)
    return process is not None and process.state is DEAD
