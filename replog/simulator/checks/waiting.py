"""Checks what waits at a live broker (INV-19): delayed operations are answered when they can be, or at their deadline,
and fetch sessions send what their reader does not have yet, in time."""

from collections.abc import Hashable
from typing import Any

from leader.delayed_fetch import Reader, available_bytes
from leader.delayed_produce import DelayedProduce
from leader.fetch_session import FetchSession
from replog.errors import ErrorCode
from replog.server.broker.replicas.replica_manager import DelayedOperations, ReplicaManager
from replog.simulator.cluster.simulated_cluster import SimulatedCluster
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import SimulatedProcess
from replog.topic import TopicPartition

SLACK_MS = 1000  # a broker that was paused first does what is due; its clock may run a little fast
WAKING_MS = 50  # a loop takes far less to run what an event has set off

Session = FetchSession[Any]


class Waiting:
    """Checks of one broker. Time in which its loop waits for the disk does not count."""

    def __init__(
        self, broker_id: int, manager: ReplicaManager, process: SimulatedProcess, world: SimulatedCluster
    ) -> None:
        self._broker = f"broker {broker_id}"
        self._manager = manager
        self._process = process
        self._world = world
        self._kinds = {"produce": manager.produces, "DeleteRecords": manager.record_deletions}
        self._now_ms = 0  # the broker's clock, which measures deadlines
        self._ran_ms = 0.0  # the simulation's clock: over a long wait, a broker's drifts by more than `WAKING_MS`
        # Things that must end soon, and `_ran_ms` when they were first seen:
        self._seen: dict[Hashable, tuple[object, float]] = {}
        self._seen_before: dict[Hashable, tuple[object, float]] = {}

    def check(self) -> int:
        """Raise Violation if something waits that should not; return the number of rows that were looked at."""
        self._now_ms = self._manager.context.clock.monotonic_ms()
        self._ran_ms = self._process.ran_s(self._world.now_s) * 1000
        self._seen_before, self._seen = self._seen, {}
        for kind, operations in self._kinds.items():
            self._check_operations(kind, operations)
        watching = self._manager.sessions.watching
        sessions: dict[Session, None] = {}
        for tp, watchers in watching.items():
            hosted = self._manager.replicas.hosted.get(tp)
            works = hosted is not None and hosted.log.failure is None
            for session in watchers:
                sessions[session] = None
                if works and tp not in session.due:
                    reader = session.reader(tp, session.named[tp].request)
                    if not isinstance(reader, ErrorCode):
                        self._check_none_forgotten(tp, session, reader)
        for session in sessions:
            if session.pending is not None:
                self._check_deadline(session, session.pending.deadline_ms, "a fetch")
                if self._could_be_answered(session):
                    cold = [(named.missing, named.brought) for named in session.named.values()]  # it waited for these
                    self._check_awake(session, (session.pending, cold), "a fetch")
        return sum(operations.purgatory.size for operations in self._kinds.values()) + sum(map(len, watching.values()))

    def _for_ms(self, key: Hashable, what: object) -> float:
        """Return for how long this has been seen of `key` without a break."""
        known = self._seen_before.get(key)
        seen = self._seen[key] = known if known is not None and known[0] == what else (what, self._ran_ms)
        return self._ran_ms - seen[1]

    def _check_deadline(self, of: Hashable, deadline_ms: int | None, what: str) -> None:
        """Raise Violation if a deadline is overdue by `SLACK_MS` of running time."""
        if deadline_ms is None or deadline_ms >= self._now_ms:
            return
        if self._for_ms((of, deadline_ms), None) > SLACK_MS:
            self._fail(f"{what} due at {deadline_ms} ms is not answered at {self._now_ms}")

    def _check_awake(self, key: Hashable, waits: object, what: str) -> None:
        """PG-6: raise Violation if something that could be answered still waits after `WAKING_MS`."""
        if (since_ms := self._for_ms(key, waits)) > WAKING_MS:
            self._fail(f"what {what} waits for came {since_ms:.0f} ms ago, and nobody has told it")

    def _fail(self, text: str) -> None:
        raise Violation("INV-19", f"{self._broker}: {text}")

    def _check_operations(self, kind: str, operations: DelayedOperations) -> None:
        next_ms = operations.purgatory.next_deadline_ms()
        for operation, (keys, deadline_ms) in operations.purgatory.waiting.items():
            what = f"a {kind} on {', '.join(map(str, keys))}"
            if operation.completed:
                self._fail(f"{what} is answered, and still waits")
            if next_ms is None or next_ms > deadline_ms:
                self._fail(f"{what} waits without a deadline, and nobody will end it")
            if isinstance(operation, DelayedProduce) and operation.could_complete():
                self._check_awake(operation, operation, what)
        self._check_deadline(kind, next_ms, f"a {kind}")

    def _check_none_forgotten(self, tp: TopicPartition, session: Session, reader: Reader) -> None:
        """FE-17: if a partition is not due, its reader has all its data and knows its high watermark."""
        named = session.named[tp]
        has, all_there = named.request.fetch_offset, reader.log.limit(session.isolation)
        known, now = named.sent_bounds and named.sent_bounds[0], reader.log.high_watermark
        epoch = named.request.current_leader_epoch
        if has < all_there or known != now or epoch not in (None, reader.leader_epoch):
            self._fail(
                f"nothing of {tp} is due to a reader at {has} in epoch {epoch} that knows the high watermark {known}; "
                f"the replica in epoch {reader.leader_epoch} has {all_there} for it, its high watermark is {now}"
            )

    def _could_be_answered(self, session: Session) -> bool:
        """Return True if the fetch that waits could be answered now. Never under a throttle, which wakes nobody when it
        has room again (FE-23); partitions whose data is being read from the disk do not count (divergence 34)."""
        total = 0
        for tp in session.due:
            named, hosted = session.named[tp], self._manager.replicas.hosted.get(tp)
            if hosted is not None and (hosted.log.failure or hosted.leader_quota or hosted.move_quota):
                return False
            if named.missing is not None:
                continue
            reader = session.reader(tp, named.request)
            available = available_bytes(reader, named.request, named.place, session.isolation)
            if available is None:
                return True
            total += available
        return session.pending is not None and total >= session.pending.awaited.min_bytes
