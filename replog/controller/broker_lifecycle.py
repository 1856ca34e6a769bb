"""A heartbeat's effect on its broker (CT-4, CT-5), and which brokers have a session (CT-6). Pure."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from replog.controller.broker_events import OfflineReplica
from replog.controller.evidence import Report
from replog.metadata.values import BrokerRegistration, Claim

CHECKS_PER_SESSION = 10


class Heartbeat(NamedTuple):
    """A broker's report about itself (CT-3)."""

    sender: Claim
    metadata_version: int  # highest applied
    want_fence: bool = False
    want_shutdown: bool = False
    offline: tuple[OfflineReplica, ...] = ()  # CT-27
    log_ends: tuple[Report, ...] | None = None  # one for each replica without a leader; None: it never says (CT-30)


class HeartbeatAnswer(NamedTuple):
    is_caught_up: bool
    is_fenced: bool
    should_shutdown: bool


class BrokerControlState(Enum):
    """The controller's view of a broker. SHUTDOWN_NOW is only an answer; the broker is stored as fenced."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


def control_state(broker: BrokerRegistration) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    return BrokerControlState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerControlState.UNFENCED


def next_state(
    current: BrokerControlState,
    *,
    want_fence: bool,
    want_shutdown: bool,
    caught_up: bool,
    leads: bool,
    shutdown_seen: bool,
) -> BrokerControlState:
    """Return the state after a heartbeat (CT-5). `shutdown_seen`: every active broker knows that its shutdown began."""
    match current:
        case BrokerControlState.FENCED:
            if want_shutdown:
                return BrokerControlState.SHUTDOWN_NOW
            return BrokerControlState.FENCED if want_fence or not caught_up else BrokerControlState.UNFENCED
        case BrokerControlState.UNFENCED:
            if want_fence:
                return BrokerControlState.SHUTDOWN_NOW if want_shutdown else BrokerControlState.FENCED
            if want_shutdown:
                return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
            return BrokerControlState.UNFENCED
        case _:
            if not leads and shutdown_seen:
                return BrokerControlState.SHUTDOWN_NOW
            return BrokerControlState.CONTROLLED_SHUTDOWN


@dataclass(slots=True)
class _Session:
    expires_ms: int
    applied_version: int = 0
    shutdown_version: int | None = None


class BrokerSessions:
    """The sessions of brokers, and how much metadata each has applied. They need not outlive the process (CT-6)."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.check_ms = max(1, timeout_ms // CHECKS_PER_SESSION)
        self._sessions: dict[int, _Session] = {}
        self._ran_ms: int | None = None  # when this process was last known to run

    def touch(self, broker_id: int, now_ms: int, applied_version: int = 0) -> None:
        session = self._sessions.setdefault(broker_id, _Session(now_ms))
        session.expires_ms = now_ms + self.timeout_ms
        session.applied_version = applied_version

    def end(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def left_ms(self, broker_id: int, now_ms: int) -> int:
        """Return the time that the session has left; 0 if there is none."""
        session = self._sessions.get(broker_id)
        return max(0, session.expires_ms - now_ms) if session else 0

    def in_expiry_order(self, broker_ids: list[int]) -> list[int]:
        """Return the brokers in the order in which their sessions end, those without one first."""
        return sorted(broker_ids, key=lambda b: (self._sessions[b].expires_ms if b in self._sessions else -1, b))

    def note_running(self, now_ms: int) -> int:
        """Call this every `check_ms`. Returns how long this process did not run: 0, or how late the call is.

        Every session is extended by that time: nobody heard the brokers during it."""
        late_ms = 0 if self._ran_ms is None else max(0, now_ms - self._ran_ms - 2 * self.check_ms)
        self._ran_ms = now_ms
        for session in self._sessions.values():
            session.expires_ms += late_ms
        return late_ms

    def applied_version(self, broker_id: int) -> int:
        session = self._sessions.get(broker_id)
        return session.applied_version if session else 0

    def note_shutdown(self, broker_id: int, version: int | None) -> None:
        """Remember the version at which the broker's controlled shutdown began. None: it is not shutting down."""
        if (session := self._sessions.get(broker_id)) is not None:
            session.shutdown_version = version

    def shutdown_seen(self, broker_id: int, active: frozenset[int]) -> bool:
        """Return True if every active broker has applied the version at which the shutdown began (CT-5, last row)."""
        session = self._sessions.get(broker_id)
        if session is None or session.shutdown_version is None:
            return False
        return all(self.applied_version(other) >= session.shutdown_version for other in active)
