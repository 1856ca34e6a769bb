"""The connections of a server by host: how many one may have, and whose gives way when there is room for no more."""

from collections.abc import Iterator
from typing import Protocol

from replog.rpc.limits import ConnectionLimits


class Place(Protocol):
    """A connection."""

    idle_since: float  # the loop's time, s: since then it has no calls, or had none when they began

    @property
    def is_idle(self) -> bool: ...


class Places:
    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._of: dict[str, dict[Place, None]] = {}

    def admits(self, host: str) -> bool:
        """Whether it has fewer than one host may have."""
        return len(self._of.get(host, ())) < self._limits.per_host

    def take(self, place: Place, host: str) -> None:
        self._of.setdefault(host, {})[place] = None

    def leave(self, place: Place, host: str) -> None:
        places = self._of.get(host, {})
        places.pop(place, None)
        if not places:
            self._of.pop(host, None)

    def yielding(self, host: str) -> Place | None:
        """Which one gives way to another of `host`: of the host that has most the one that has been idle longest, else
        the one that became busy first. None if that host would then have fewer than `host`."""
        most = max(self._of.values(), key=len, default={})
        if len(most) <= len(self._of.get(host, ())) + 1:
            return None
        return min(most, key=lambda place: (not place.is_idle, place.idle_since))

    def idle(self, now: float) -> Iterator[Place]:
        """Those without a call for too long."""
        before = now - self._limits.idle_ms / 1000
        for places in list(self._of.values()):
            yield from [place for place in places if place.is_idle and place.idle_since <= before]
