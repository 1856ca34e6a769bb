"""A leader's knowledge of one follower, and when it counts as caught up (ST-7 to ST-12)."""

from dataclasses import dataclass
from typing import NamedTuple

from replog.metadata.values import NO_BROKER_EPOCH

NEVER_MS = -(1 << 62)  # long before any monotonic time


@dataclass(slots=True, eq=False)
class FetchContext:
    """A follower on one stream, and the time of its last request, which counts for all of its partitions.

    A request names only what changed. In all other partitions neither follower nor leader has moved, so the follower is
    still level there. This number says so, instead of a walk over all partitions."""

    replica_id: int
    broker_epoch: int
    asked_ms: int = NEVER_MS


class FollowerState(NamedTuple):
    """One immutable snapshot, replaced as a whole. Times are monotonic milliseconds, offsets -1 when unknown."""

    log_start_offset: int = -1
    log_end_offset: int = -1  # the last accepted fetch offset; may go down after the follower truncated
    last_fetch_leader_end_offset: int = 0  # the leader's log end just before it served the last accepted fetch
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS  # the last time when the follower had all that the leader had
    broker_epoch: int = NO_BROKER_EPOCH  # the last accepted fetch named it
    context: FetchContext | None = None  # set while it has all, until the next append: each request counts as a fetch

    @property
    def caught_up_ms(self) -> int:
        """The time when it last had all. Requests that did not name the partition count, too."""
        return self.last_caught_up_ms if self.context is None else max(self.last_caught_up_ms, self.context.asked_ms)

    def settled(self) -> "FollowerState":
        """Return the same state, to which later requests do not count."""
        if self.context is None:
            return self
        last_fetch_ms = max(self.last_fetch_ms, self.context.asked_ms)
        return self._replace(last_fetch_ms=last_fetch_ms, last_caught_up_ms=self.caught_up_ms, context=None)

    def withdrawn(self) -> "FollowerState":
        """The state after the controller has removed it from the ISR: no leader waits for it until it asks again."""
        return self.settled()._replace(last_caught_up_ms=NEVER_MS)

    def after_fetch(
        self, context: FetchContext, *, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> "FollowerState":
        """Return the state after an accepted fetch; `leader_end_offset` as it was before the read (ST-7.2 to ST-7.5).

        A follower that reaches the leader's log end of the previous fetch was caught up at the time of that fetch."""
        before = self.settled()
        caught_up = fetch_offset >= leader_end_offset
        caught_up_ms = before.last_caught_up_ms
        if caught_up:
            caught_up_ms = max(caught_up_ms, now_ms)
        elif fetch_offset >= before.last_fetch_leader_end_offset:
            caught_up_ms = max(caught_up_ms, before.last_fetch_ms)
        return FollowerState(
            log_start_offset=log_start_offset,
            log_end_offset=fetch_offset,
            last_fetch_leader_end_offset=max(leader_end_offset, before.last_fetch_leader_end_offset),
            last_fetch_ms=now_ms,
            last_caught_up_ms=caught_up_ms,
            broker_epoch=context.broker_epoch,
            context=context if caught_up else None,
        )

    def after_election(
        self, *, in_isr: bool, was_leader: bool, epoch_start_offset: int, now_ms: int
    ) -> "FollowerState":
        """The state at the start of a new leader epoch (ST-11): a member of the ISR is granted a full lag period.

        A leader that is elected again keeps what it knows. Any other leader begins without knowledge."""
        granted_ms = now_ms if in_isr else NEVER_MS
        if not was_leader:
            return FollowerState(last_fetch_leader_end_offset=-1, last_caught_up_ms=granted_ms)
        return self._replace(
            last_fetch_leader_end_offset=epoch_start_offset,
            last_fetch_ms=granted_ms,
            last_caught_up_ms=granted_ms,
            context=None,
        )

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Return True if it is level with the leader, or was at most `max_lag_ms` ago (ST-8)."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms
