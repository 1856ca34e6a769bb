"""Quotas of users on this broker, in bytes per second, and the waits of a user who has had too much (KIP-13).

All connections of a user share a quota. A user who exceeds it is not refused but delayed: requests are answered, and
then not read until the average is back at the rate (KIP-219). The wait is bounded, like Kafka's window."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from replog.config.processes import DEFAULT_USER, ClientQuota
from replog.config.properties import number_in
from replog.errors import ErrorCode, ReplogError
from replog.rpc.peer import Peer
from replog.server.clock import Clock

BURST_MS = 1000  # a user may take so much of its rate at once
MAX_THROTTLE_MS = 10_000
MAX_THROTTLED = 10_000  # users that are remembered
PRODUCED, CONSUMED = ClientQuota.model_fields


@dataclass(eq=False, slots=True)
class QuotaThrottle:
    """A user's bytes, produced or consumed. They drain at the rate; more than a burst has to be waited for."""

    _user: str
    _kind: str
    _quotas: Mapping[str, Mapping[str, str]]  # each user's, from the metadata; they may change at any time
    _clock: Clock
    _bytes: float = 0.0
    _drained_ms: int = 0

    @property
    def rate(self) -> int | None:
        """The present quota, in bytes per second; None: no limit."""
        for user in (self._user, DEFAULT_USER):
            said = self._quotas.get(user, {}).get(self._kind, "")  # a later release may store others
            if (rate := number_in(said)) is not None:
                return rate
        return None

    def record(self, size: int) -> None:
        if self._quotas and (rate := self.rate) is not None:
            most = rate * (BURST_MS + MAX_THROTTLE_MS) / 1000
            self._bytes = min(self._drain(rate) + size, most)

    def wait_ms(self) -> int:
        """Return how long the user has to wait; 0: not at all."""
        if not self._quotas or (rate := self.rate) is None:
            return 0
        excess = self._drain(rate) - rate * BURST_MS / 1000
        return math.ceil(excess * 1000 / rate) if excess > 0 else 0

    def _drain(self, rate: int) -> float:
        now_ms = self._clock.monotonic_ms()
        self._bytes = max(0.0, self._bytes - rate * (now_ms - self._drained_ms) / 1000)
        self._drained_ms = now_ms
        return self._bytes

    async def turn(self) -> bool:
        """Wait until the user may go on, at most `MAX_THROTTLE_MS`. Return False if its other requests took the quota
        meanwhile."""
        left_ms = MAX_THROTTLE_MS
        while wait_ms := min(self.wait_ms(), left_ms):
            await asyncio.sleep(wait_ms / 1000)
            left_ms -= wait_ms
        return not self.wait_ms()

    def exceeded(self) -> ReplogError:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
            f"{self._user} has had more than its {self._kind} of {self.rate} for {MAX_THROTTLE_MS / 1000:g} s; "
            "send less, or ask for a larger quota"
        )


@dataclass(eq=False, slots=True)
class ClientQuotas:
    _quotas: Mapping[str, Mapping[str, str]]
    _clock: Clock
    _throttles: dict[tuple[str, str], QuotaThrottle] = field(default_factory=dict)

    def of(self, asks: Peer, kind: str) -> QuotaThrottle:
        key = asks.principal, kind
        if key not in self._throttles:
            if len(self._throttles) >= MAX_THROTTLED:
                self._throttles.pop(next(iter(self._throttles)))
            self._throttles[key] = QuotaThrottle(asks.principal, kind, self._quotas, self._clock)
        return self._throttles[key]
