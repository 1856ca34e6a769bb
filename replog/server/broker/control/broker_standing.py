"""A broker's standing with the controller: its state, the wishes of a heartbeat, the meaning of an answer. Pure."""

from enum import Enum

CONTROLLED_SHUTDOWN_RETRY_MS = 50
CAUGHT_UP_RETRY_MS = 10


class BrokerState(Enum):
    """The states of a broker (CT-2)."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


class BrokerStanding:
    def __init__(self, heartbeat_interval_ms: int) -> None:
        self.state = BrokerState.STARTING
        self.fenced = True
        self.interval_ms = heartbeat_interval_ms

    @property
    def want_fence(self) -> bool:
        """True if the broker is not ready to serve."""
        return self.state in (BrokerState.STARTING, BrokerState.RECOVERY)

    @property
    def want_shutdown(self) -> bool:
        """True if the broker asks to be relieved of its leaderships (CT-13)."""
        return self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN

    def on_answer(self, *, is_fenced: bool, is_caught_up: bool) -> int:
        """Take in the answer to a heartbeat. Return in how many milliseconds the next one is due (CT-3)."""
        self.fenced = is_fenced
        if self.want_shutdown:
            return CONTROLLED_SHUTDOWN_RETRY_MS
        if is_fenced and is_caught_up and self.state is BrokerState.RUNNING:
            return CAUGHT_UP_RETRY_MS  # the next answer unfences it
        return self.interval_ms
