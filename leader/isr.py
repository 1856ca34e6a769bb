"""The in-sync set: accepted by the controller, or proposed to it, and its answers (ST-1, ISR-4 to ISR-11); and how far
a leader may raise its high watermark by it (HW-2 to HW-6).

    a follower has reached the high watermark and the epoch's start (ISR-1),
    a member is out of sync (ISR-5), or the leader resigns (ISR-20)
Committed ─────────────────────────────────────────────────────────────────────► Pending
    ▲                                                                               │
    └──────────────────────── accepted · refused · metadata ◄───────────────────────┘"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from leader.follower_state import FollowerState
from replog.errors import ErrorCode
from replog.topic import TopicPartition

MAX_PROPOSALS = 500  # one request; a lost follower gives a leader one proposal for each partition


@dataclass(frozen=True, slots=True)
class Committed:
    """The controller has accepted `isr` and nothing is proposed."""

    isr: frozenset[int]

    @property
    def maximal_isr(self) -> frozenset[int]:
        return self.isr


@dataclass(frozen=True, slots=True, eq=False)
class IsrProposal:
    """One AlterPartition item, compared by identity: an answer counts only for the very proposal it answers (ISR-9).

    Each says RECOVERED: a leader elected uncleanly serves what it has, so there is nothing to recover (ST-15)."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # (broker id, broker epoch), by broker id
    log_ends: Mapping[int, int] = field(default_factory=dict)  # each replica's, as the leader knew them; for the log


@dataclass(frozen=True, slots=True)
class Pending:
    """`joining` may already be in sync for the controller, `leaving` may still be: the high watermark waits for both
    (ST-2)."""

    isr: frozenset[int]  # the last committed set
    proposal: IsrProposal
    joining: frozenset[int] = frozenset()
    leaving: frozenset[int] = frozenset()

    @property
    def maximal_isr(self) -> frozenset[int]:
        return self.isr | self.joining


IsrState = Committed | Pending


class AfterRefusal(Enum):
    """Says what a leader does about a proposal that was not accepted."""

    REVERT = "revert"  # certainly not applied: return to the last committed set
    WAIT = "wait"  # superseded, or the outcome cannot be known: stay pending until newer metadata (ISR-10)
    RESUBMIT = "resubmit"  # not decided: send the same proposal again


_AFTER_REFUSAL = {
    ErrorCode.OPERATION_NOT_ATTEMPTED: AfterRefusal.REVERT,
    ErrorCode.INELIGIBLE_REPLICA: AfterRefusal.REVERT,
    ErrorCode.NOT_ENOUGH_REPLICAS: AfterRefusal.REVERT,  # refuses a resignation
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: AfterRefusal.REVERT,  # refuses another resignation so soon
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: AfterRefusal.WAIT,
    ErrorCode.UNKNOWN_TOPIC_ID: AfterRefusal.WAIT,
    ErrorCode.FENCED_LEADER_EPOCH: AfterRefusal.WAIT,
    ErrorCode.INVALID_UPDATE_VERSION: AfterRefusal.WAIT,
    ErrorCode.INVALID_REQUEST: AfterRefusal.WAIT,
    ErrorCode.NEW_LEADER_ELECTED: AfterRefusal.WAIT,
}


def after_refusal(error: ErrorCode) -> AfterRefusal:
    """Look up an error in the rows of ISR-9; any other one (network, timeout, NOT_CONTROLLER) is resubmitted."""
    return _AFTER_REFUSAL.get(error, AfterRefusal.RESUBMIT)


def high_watermark_candidate(
    leader_end_offset: int,
    followers: Mapping[int, FollowerState],
    isr_state: IsrState,
    *,
    min_insync_replicas: int,
    is_eligible: Callable[[int, FollowerState], bool],
    now_ms: int,
    max_lag_ms: int,
) -> int | None:
    """Return the least log end that the high watermark waits for, or None while too few are in sync (HW-2).

    It waits for every member of the maximal ISR, and for a caught-up, eligible replica that returns: otherwise that
    replica could chase it for ever (HW-3, HW-6). -1 while a member has not fetched in this epoch (HW-5). The caller
    only raises the high watermark to it, never lowers it (HW-4)."""
    if len(isr_state.isr) < min_insync_replicas:
        return None
    candidate = leader_end_offset
    maximal_isr = isr_state.maximal_isr
    for replica_id, follower in followers.items():
        if follower.log_end_offset < candidate and (
            replica_id in maximal_isr
            or (follower.is_caught_up(leader_end_offset, now_ms, max_lag_ms) and is_eligible(replica_id, follower))
        ):
            candidate = follower.log_end_offset
    return candidate


class AlterPartitionQueue:
    """At most one proposal per partition is queued and at most one request is in flight, carrying those first queued.

    A proposal leaves the queue only with its answer: neither newer metadata nor a failed request removes it."""

    def __init__(self) -> None:
        self._queued: dict[TopicPartition, IsrProposal] = {}
        self._in_flight: dict[TopicPartition, IsrProposal] | None = None

    def __len__(self) -> int:
        return len(self._queued)

    def submit(self, topic_partition: TopicPartition, proposal: IsrProposal) -> bool:
        """Queue a proposal. False if one of this partition still waits for its answer (OPERATION_NOT_ATTEMPTED)."""
        return self._queued.setdefault(topic_partition, proposal) is proposal

    def next_batch(self) -> dict[TopicPartition, IsrProposal] | None:
        """Return the proposals to send as one request now; None if nothing waits or a request is in flight."""
        if self._in_flight is not None or not self._queued:
            return None
        self._in_flight = dict(islice(self._queued.items(), MAX_PROPOSALS))
        return dict(self._in_flight)

    def on_answer(self, answered: Iterable[TopicPartition]) -> dict[TopicPartition, IsrProposal]:
        """Take the proposals of the answered partitions out of the queue and return them.

        The handler of the answer may submit again at once. Partitions missing from the answer stay queued; partitions
        that were not in the request are ignored."""
        in_flight, self._in_flight = self._in_flight or {}, None
        taken = {}
        for topic_partition in answered:
            if topic_partition in in_flight and topic_partition in self._queued:
                taken[topic_partition] = self._queued.pop(topic_partition)
        return taken

    def on_failure(self) -> None:
        """The request failed as a whole: keep everything queued, for a `next_batch` after a pause."""
        self._in_flight = None
