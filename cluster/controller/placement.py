"""Which brokers hold the replicas of a new topic (CT-20). Pure: chance is handed in."""

import random
from collections.abc import Iterable

from replog.metadata import Broker


class _Ring:
    """Brokers in a rotation that moves on by one with every partition."""

    def __init__(self, chance: random.Random) -> None:
        self.brokers: list[int] = []
        self._chance = chance
        self._start = 0
        self._taken = 0

    def shuffle(self) -> None:
        self._chance.shuffle(self.brokers)
        self._start = self._chance.randrange(len(self.brokers)) if self.brokers else 0

    def next_partition(self) -> None:
        self._start += 1
        self._taken = 0

    def take(self) -> int | None:
        if self._taken == len(self.brokers):
            return None
        broker = self.brokers[(self._start + self._taken) % len(self.brokers)]
        self._taken += 1
        return broker


class _Rack:
    def __init__(self, chance: random.Random) -> None:
        self.active = _Ring(chance)
        self.inactive = _Ring(chance)

    def take(self) -> int | None:
        broker = self.active.take()
        return broker if broker is not None else self.inactive.take()


class ReplicaPlacer:
    """Spreads replicas over racks, and leaders over brokers. Brokers without a rack share one (CT-20)."""

    def __init__(self, brokers: Iterable[Broker], chance: random.Random) -> None:
        racks: dict[str, _Rack] = {}
        for broker in sorted(brokers, key=lambda b: b.broker_id):
            rack = racks.setdefault(broker.rack, _Rack(chance))
            (rack.active if broker.active else rack.inactive).brokers.append(broker.broker_id)
        self._racks = [racks[name] for name in sorted(racks)]
        self._active_count = sum(len(rack.active.brokers) for rack in self._racks)
        self._first = chance.randrange(len(self._racks)) if self._racks else 0
        self._placed = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """The next partition's replicas in preference order; the first is active.

        There must be an active broker, and at least `replication_factor` brokers.
        """
        if self._placed % max(1, self._active_count) == 0:  # every broker has led once: a new order, not the same again
            for ring in self._rings():
                ring.shuffle()
        racks = self._racks[self._first :] + self._racks[: self._first]
        leading = next(i for i, rack in enumerate(racks) if rack.active.brokers)
        leader = racks[leading].active.take()
        assert leader is not None, "a partition starts with every ring full"
        replicas = [leader]
        # The leader's rack comes last in the round, so that another rack is used twice only when all were used once.
        order = racks[leading + 1 :] + racks[: leading + 1]
        while len(replicas) < replication_factor:
            found = [broker for rack in order if (broker := rack.take()) is not None]
            assert found, f"{replication_factor} replicas asked of too few brokers"
            replicas.extend(found)
        for ring in self._rings():
            ring.next_partition()
        self._first = (self._first + 1) % len(self._racks)
        self._placed += 1
        return tuple(replicas[:replication_factor])

    def _rings(self) -> list[_Ring]:
        return [ring for rack in self._racks for ring in (rack.active, rack.inactive)]
