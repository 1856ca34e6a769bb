"""The connections of a server by host: the limit of each host, and the one that gives way when there are too many."""

from collections.abc import Iterator
from typing import Protocol

from replog.rpc.limits import ConnectionLimits


class Place(Protocol):
    idle_since: float  # the loop's time, s, when its last call ended, or when it was made

    @property
    def is_idle(self) -> bool: ...


class Places:
    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._of: dict[str, dict[Place, None]] = {}

    def admits(self, host: str) -> bool:
        """Return True if the host has fewer connections than its limit."""
        return len(self._of.get(host, ())) < self._limits.per_host

    def take(self, place: Place, host: str) -> None:
        self._of.setdefault(host, {})[place] = None

    def leave(self, place: Place, host: str) -> None:
        places = self._of.get(host, {})
        places.pop(place, None)
        if not places:
            self._of.pop(host, None)

    def yielding(self, host: str) -> Place | None:
        """Return the connection that gives way to a new one of `host`: of the host that has most the longest idle one,
        else the one whose last call ended first. None if that host would then have fewer than `host`."""
        most = max(self._of.values(), key=len, default={})
        if len(most) <= len(self._of.get(host, ())) + 1:
            return None
        return min(most, key=lambda place: (not place.is_idle, place.idle_since))

    def idle(self, now: float) -> Iterator[Place]:
        """Yield the connections without a call for too long."""
        before = now - self._limits.idle_ms / 1000
        for places in list(self._of.values()):
            yield from [place for place in places if place.is_idle and place.idle_since <= before]
