"""Checks delayed operations of a live broker: each is answered when it can be, or at its deadline (INV-19)."""

from leader.delayed_produce import DelayedProduce
from replog.purgatory.purgatory import DelayedOperation
from replog.server.broker.replicas.replica_manager import DelayedOperations, ReplicaManager
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import SimulatedProcess
from replog.topic import TopicPartition

Operation = DelayedOperation[TopicPartition]

SLACK_MS = 1000  # a broker that was paused first does what is due; its clock may run a little fast
WAKING_MS = 50  # a loop takes far less to run what an event has set off


class Overdue:
    """Deadlines that have passed. One that is `SLACK_MS` of running time overdue is a violation."""

    def __init__(self) -> None:
        self.seen: dict[object, tuple[int, int]] = {}  # the deadline, and when it was first seen to have passed

    def check(self, of: object, deadline_ms: int | None, now_ms: int, what: str) -> None:
        if deadline_ms is None or deadline_ms >= now_ms:
            self.seen.pop(of, None)
        elif of not in self.seen or self.seen[of][0] != deadline_ms:
            self.seen[of] = deadline_ms, now_ms
        elif now_ms - self.seen[of][1] > SLACK_MS:
            raise Violation("INV-19", f"{what} due at {deadline_ms} ms is not answered at {now_ms}")


class Purgatories:
    """Checks of one broker's delayed operations. Time in which its loop waits for the disk does not count."""

    def __init__(self, broker_id: int, manager: ReplicaManager, process: SimulatedProcess) -> None:
        self._broker_id = broker_id
        self._context = manager.context
        self._process = process
        self._kinds = {"produce": manager.produces, "DeleteRecords": manager.record_deletions}
        self._late = Overdue()  # one deadline for each kind
        self._ready: dict[Operation, int] = {}  # the time in ms since which each could be answered

    def check(self) -> int:
        """Raise Violation if an operation is overdue; return the number of operations that were looked at."""
        now_ms = self._context.clock.monotonic_ms() - int(self._process.waited_s * 1000)
        ready, self._ready = self._ready, {}
        for kind, operations in self._kinds.items():
            self._check_none_forgotten(kind, operations)
            self._check_none_sleeps(kind, operations, now_ms, ready)
            deadline_ms = operations.purgatory.next_deadline_ms()
            self._late.check(kind, deadline_ms, now_ms, f"broker {self._broker_id}: a {kind}")
        return sum(operations.purgatory.size for operations in self._kinds.values())

    def _check_none_sleeps(
        self, kind: str, operations: DelayedOperations, now_ms: int, before: dict[Operation, int]
    ) -> None:
        """PG-6: raise Violation if an operation that could be answered still waits after `WAKING_MS`."""
        for operation, (keys, _) in operations.purgatory.waiting.items():
            if not _could_be_answered(operation):
                continue
            since_ms = self._ready[operation] = before.get(operation, now_ms)
            if now_ms - since_ms > WAKING_MS:
                raise Violation(
                    "INV-19",
                    f"broker {self._broker_id}: what a {kind} on {', '.join(map(str, keys))} waits for came "
                    f"{now_ms - since_ms} ms ago, and nobody has told it",
                )

    def _check_none_forgotten(self, kind: str, operations: DelayedOperations) -> None:
        next_ms = operations.purgatory.next_deadline_ms()
        for operation, (keys, deadline_ms) in operations.purgatory.waiting.items():
            where = f"broker {self._broker_id}: a {kind} on {', '.join(map(str, keys))}"
            if operation.completed:
                raise Violation("INV-19", f"{where} is answered, and still waits")
            if next_ms is None or next_ms > deadline_ms:
                raise Violation("INV-19", f"{where} waits without a deadline, and nobody will end it")


def _could_be_answered(operation: Operation) -> bool:
    return isinstance(operation, DelayedProduce) and operation.could_complete()
