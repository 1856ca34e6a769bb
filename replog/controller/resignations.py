"""The answer to a leader that no in-sync replica reaches and that asks to lead no more (CT-22, divergence 32). Pure.

The next leader is in sync, or eligible if no other is in sync (ISR-17), and answers the controller now: no committed
record is lost. The old leader leaves the ISR in the same record, otherwise the new one would wait for it and commit
nothing. Perhaps the others do not reach each other either, and the next leader asks, too: so a partition changes its
leader in this way at most once in `INTERVAL_MS`."""

from collections import OrderedDict
from collections.abc import Set
from dataclasses import replace

from replog.controller.elections import Situation, remove_from_isr
from replog.errors import ErrorCode
from replog.metadata.values import LEAST_CANDIDATES, PartitionState
from replog.topic import TopicPartition

INTERVAL_MS = 30_000


def candidates(state: PartitionState) -> tuple[int, ...]:
    """Return the brokers that may lead if the leader leaves the ISR: they have all committed records."""
    return tuple(r for r in state.isr if r != state.leader) or state.elr


class Resignations:
    """The partitions that changed their leader within the interval. They need not outlive the process."""

    def __init__(self) -> None:
        self._granted_ms: OrderedDict[TopicPartition, int] = OrderedDict()  # oldest first

    def resign(
        self, tp: TopicPartition, state: PartitionState, situation: Situation, present: Set[int], now_ms: int
    ) -> PartitionState | ErrorCode:
        """Return the state with another leader, one of those `present`, or why this one has to stay."""
        alive = situation.active.intersection(candidates(state), present)
        minimum = min(situation.min_insync_replicas, len(state.replicas))  # PR-2
        if len(alive) < max(LEAST_CANDIDATES, minimum):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if self.has_just(tp, now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self._granted_ms[tp] = now_ms
        return remove_from_isr(state, state.leader, replace(situation, active=alive))

    def has_just(self, tp: TopicPartition, now_ms: int) -> bool:
        """Return True if the partition's leader resigned within the interval."""
        while self._granted_ms and next(iter(self._granted_ms.values())) <= now_ms - INTERVAL_MS:
            self._granted_ms.popitem(last=False)
        return tp in self._granted_ms
