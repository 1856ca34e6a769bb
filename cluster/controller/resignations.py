"""A leader that nobody in sync reaches asks to lead no more: may it, and what then? (CT-22, divergence 32) Pure.

In its place leads one that is in sync, or eligible if nobody else is in sync (ISR-17), and that answers the controller
now: nothing that was committed is lost. The old leader leaves the ISR in the same record, for the new one could commit
nothing while it had to wait for it. Whether the others reach each other nobody knows. If not, the next leader asks in
its turn; so a partition changes hands in this way once in `INTERVAL_MS` at most.
"""

from collections import OrderedDict
from collections.abc import Set
from dataclasses import replace

from cluster.controller.elections import Situation, remove_from_isr
from leader.resignation import LEAST_HEIRS
from replog.errors import ErrorCode
from replog.metadata import PartitionState
from replog.topic import TopicPartition

INTERVAL_MS = 30_000


def heirs(state: PartitionState) -> tuple[int, ...]:
    """Who may lead if the leader leaves the ISR, and has all that was committed."""
    return tuple(r for r in state.isr if r != state.leader) or state.elr


class Resignations:
    """Remembers what changed hands within the interval; lost with the process, and needs no more."""

    def __init__(self) -> None:
        self._granted_ms: OrderedDict[TopicPartition, int] = OrderedDict()  # oldest first

    def resign(
        self, tp: TopicPartition, state: PartitionState, situation: Situation, present: Set[int], now_ms: int
    ) -> PartitionState | ErrorCode:
        """The state under another leader, one of those `present`; or why this one has to stay."""
        alive = situation.active.intersection(heirs(state), present)
        minimum = min(situation.min_insync_replicas, len(state.replicas))  # PR-2
        if len(alive) < max(LEAST_HEIRS, minimum):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if self.has_just(tp, now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self._granted_ms[tp] = now_ms
        return remove_from_isr(state, state.leader, replace(situation, active=alive))

    def has_just(self, tp: TopicPartition, now_ms: int) -> bool:
        """Whether it has changed hands within the interval."""
        while self._granted_ms and next(iter(self._granted_ms.values())) <= now_ms - INTERVAL_MS:
            self._granted_ms.popitem(last=False)
        return tp in self._granted_ms
