"""Delayed operations of a live broker: none outlives its deadline, none is forgotten or sleeps on (INV-19)."""

from leader.delayed_produce import DelayedProduce
from replog.purgatory.operation import DelayedOperation
from replog.server.broker.replicas.delayed_operations import DelayedOperations
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.simulator.checks.violation import Violation
from replog.simulator.runtime.process import SimulatedProcess
from replog.topic import TopicPartition

Operation = DelayedOperation[TopicPartition]

SLACK_MS = 1000  # a broker that was paused first works off what is due; its clock may run a little fast
WAKING_MS = 50  # far more than a loop takes to get round to what an event set off


class Overdue:
    """Deadlines that have passed. One is told once it has been so for `SLACK_MS` of running time."""

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
    """Those of one broker. While the loop waits for the disk no time passes here."""

    def __init__(self, broker_id: int, manager: ReplicaManager, process: SimulatedProcess) -> None:
        self._broker_id = broker_id
        self._manager = manager
        self._process = process
        self._kinds = {"produce": manager.produces, "DeleteRecords": manager.record_deletions}
        self._late = Overdue()  # by kind
        self._ready: dict[Operation, int] = {}  # since when each could be answered, by now

    def check(self) -> int:
        """How many rows of requests were looked at."""
        now_ms = self._manager.clock.monotonic_ms() - int(self._process.waited_s * 1000)
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
        """What has come has woken its waiters (PG-6): data, a high watermark, another role. Between two
        looks the loop gets round to that."""
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
        for operation, (keys, deadline) in operations.purgatory.waiting.items():
            where = f"broker {self._broker_id}: a {kind} on {', '.join(map(str, keys))}"
            if operation.completed:
                raise Violation("INV-19", f"{where} is answered, and still waits")
            if not deadline.live:
                raise Violation("INV-19", f"{where} waits without a deadline, and nobody will end it")


def _could_be_answered(operation: Operation) -> bool:
    return isinstance(operation, DelayedProduce) and operation.could_complete()
