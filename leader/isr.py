"""The in-sync set: accepted by the controller, or proposed to it, and its answers (ST-1, ISR-4 to ISR-11).

    a follower has reached the high watermark and the epoch's start (ISR-1),
    a member is out of sync (ISR-5), or the leader resigns (ISR-20)
Committed ─────────────────────────────────────────────────────────────────────► Pending
    ▲                                                                               │
    └──────────────────────── accepted · refused · metadata ◄───────────────────────┘"""

from dataclasses import dataclass
from enum import Enum

from replog.errors import ErrorCode


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
