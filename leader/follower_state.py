"""What a leader knows of one follower, and when it counts as caught up (ST-7 to ST-12)."""

from dataclasses import dataclass

from replog.metadata import NO_BROKER_EPOCH

NEVER_MS = -(1 << 62)  # long before any monotonic time


@dataclass(frozen=True, slots=True)
class FollowerState:
    """One immutable snapshot, replaced as a whole. Times are monotonic milliseconds, offsets -1 when unknown."""

    log_start_offset: int = -1
    log_end_offset: int = -1  # the last accepted fetch offset; may go down after the follower truncated
    last_fetch_leader_end_offset: int = 0  # the leader's log end just before it served the last accepted fetch
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS  # when the follower last had all that the leader had
    broker_epoch: int = NO_BROKER_EPOCH  # of the last accepted fetch

    def after_fetch(
        self, *, fetch_offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: int
    ) -> "FollowerState":
        """The state after an accepted fetch; `leader_end_offset` as it was before the read (ST-7.2 to ST-7.5).

        A follower that reaches where the leader stood at the previous fetch was caught up at that time.
        """
        caught_up_ms = self.last_caught_up_ms
        if fetch_offset >= leader_end_offset:
            caught_up_ms = max(caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            caught_up_ms = max(caught_up_ms, self.last_fetch_ms)
        return FollowerState(
            log_start_offset=log_start_offset,
            log_end_offset=fetch_offset,
            last_fetch_leader_end_offset=max(leader_end_offset, self.last_fetch_leader_end_offset),
            last_fetch_ms=now_ms,
            last_caught_up_ms=caught_up_ms,
            broker_epoch=broker_epoch,
        )

    def after_election(
        self, *, in_isr: bool, was_leader: bool, epoch_start_offset: int, now_ms: int
    ) -> "FollowerState":
        """The state at the start of a new leader epoch (ST-11): a member of the ISR is granted a full lag period.

        A leader that was elected again keeps what it knows; one that was not leader knows nothing.
        """
        granted_ms = now_ms if in_isr else NEVER_MS
        if not was_leader:
            return FollowerState(last_fetch_leader_end_offset=-1, last_caught_up_ms=granted_ms)
        return FollowerState(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            last_fetch_leader_end_offset=epoch_start_offset,
            last_fetch_ms=granted_ms,
            last_caught_up_ms=granted_ms,
            broker_epoch=self.broker_epoch,
        )

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """ST-8: level with the leader, or it was at most `max_lag_ms` ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms
