"""Delayed operations of a live broker: none outlives its deadline, none is forgotten (INV-19)."""

from cluster.broker.delayed import DelayedOperations
from cluster.broker.replica_manager import ReplicaManager
from cluster.simulation.checks.violation import Violation

SLACK_MS = 1000  # a broker that was paused first works off what is due; its clock may run a little fast


class Purgatories:
    """Those of one broker. A deadline that has passed is told once it has been so for `SLACK_MS` of running time."""

    def __init__(self, broker_id: int, manager: ReplicaManager) -> None:
        self._broker_id = broker_id
        self._manager = manager
        self._kinds = {
            "produce": manager.produces,
            "fetch": manager.fetches,
            "DeleteRecords": manager.record_deletions,
        }
        self._late: dict[str, tuple[int, int]] = {}  # by kind: the deadline, and when it was first seen to have passed

    def check(self) -> None:
        now_ms = self._manager.clock.monotonic_ms()
        for kind, operations in self._kinds.items():
            self._check_none_forgotten(kind, operations)
            deadline_ms = operations._purgatory.next_deadline_ms()
            if deadline_ms is None or deadline_ms >= now_ms:
                self._late.pop(kind, None)
                continue
            first = self._late.get(kind)
            if first is None or first[0] != deadline_ms:
                self._late[kind] = deadline_ms, now_ms
            elif now_ms - first[1] > SLACK_MS:
                raise Violation(
                    "INV-19",
                    f"broker {self._broker_id}: a {kind} due at {deadline_ms} ms is not answered at {now_ms}",
                )

    def _check_none_forgotten(self, kind: str, operations: DelayedOperations) -> None:
        for key, watched in operations._purgatory._watchers.items():
            for operation in watched:
                if not operation.completed and operation._timer_entry is None:
                    raise Violation(
                        "INV-19",
                        f"broker {self._broker_id}: a {kind} on {key} waits without a deadline, and nobody will end it",
                    )
