"""Placement of a new topic's replicas on brokers (CT-20). Pure: random numbers are passed in."""

from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Protocol

from replog.metadata.values import BrokerRegistration


class Rng(Protocol):
    """The methods of `random.Random` that are used."""

    def shuffle(self, x: list[int], /) -> None: ...

    def randrange(self, start: int, /) -> int: ...

    def randbytes(self, n: int, /) -> bytes: ...


class _Rack:
    """The brokers of one rack. It remembers its turns, so that leading and following go round evenly."""

    def __init__(self, rng: Rng) -> None:
        self.active: list[int] = []
        self.inactive: list[int] = []
        self._rng = rng
        self._led = 0
        self._followed = 0

    def leading(self) -> Iterator[int]:
        """Yields the brokers in the order for the next partition that this rack leads."""
        if self._led % len(self.active) == 0:  # each led once; in the same order, the same sets would come again
            self._rng.shuffle(self.active)
            self._rng.shuffle(self.inactive)
        self._led += 1
        yield from self._order(self._led)

    def following(self) -> Iterator[int]:
        """Yields the brokers in the order for a partition that another rack leads."""
        self._followed += 1
        yield from self._order(self._followed)

    def _order(self, turn: int) -> Iterator[int]:
        for brokers in (self.active, self.inactive):
            for i in range(len(brokers)):
                yield brokers[(turn + i) % len(brokers)]


class ReplicaPlacer:
    """Spreads replicas over racks, and leaders over brokers. Brokers without a rack share one (CT-20).

    A rack without an active broker is used only when all others were used once (divergence 46)."""

    def __init__(self, brokers: Iterable[BrokerRegistration], rng: Rng) -> None:
        racks: dict[str, _Rack] = {}
        for broker in sorted(brokers, key=lambda b: b.broker_id):
            rack = racks.setdefault(broker.rack, _Rack(rng))
            (rack.active if broker.active else rack.inactive).append(broker.broker_id)
        ordered = [racks[name] for name in sorted(racks)]
        self._racks = [rack for rack in ordered if rack.active]
        self._dead = [rack for rack in ordered if not rack.active]
        self._first = rng.randrange(len(self._racks)) if self._racks else 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the next partition's replicas in preference order; the first is active.

        Needs an active broker, and at least `replication_factor` brokers."""
        leading, *others = self._racks[self._first :] + self._racks[: self._first]
        self._first = (self._first + 1) % len(self._racks)
        # The leader's rack comes last in a round: a rack is used twice only when every rack was used once.
        sources = [rack.following() for rack in others + self._dead] + [leading.leading()]
        replicas = [next(sources[-1])]
        for source in cycle(sources):
            if len(replicas) == replication_factor:
                break
            if (broker := next(source, None)) is not None:
                replicas.append(broker)
        return tuple(replicas)
