"""Checks fetch sessions of a live broker: each sends what its reader does not have yet, in time (INV-19)."""

from typing import Any

from leader.delayed_fetch import Reader, available_bytes
from leader.fetch_session import FetchSession
from replog.errors import ErrorCode
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.simulator.checks.purgatories import WAKING_MS, Overdue
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import SimulatedProcess
from replog.topic import TopicPartition

Session = FetchSession[Any]


class FetchSessionChecks:
    def __init__(self, broker_id: int, manager: ReplicaManager, process: SimulatedProcess) -> None:
        self._broker_id = broker_id
        self._manager = manager
        self._context = manager.context
        self._replicas = manager.replicas
        self._process = process
        self._late = Overdue()
        self._ready: dict[Session, tuple[object, int]] = {}  # the fetch that could be answered, and since when in ms

    def check(self) -> int:
        """Raise Violation if a session is wrong; return the number of partitions that were looked at."""
        now_ms = self._context.clock.monotonic_ms() - int(self._process.waited_s * 1000)
        sessions: dict[Session, None] = {}
        for tp, watching in self._manager.sessions.watching.items():
            hosted = self._replicas.hosted.get(tp)
            works = hosted is not None and hosted.log.failure is None
            for session in watching:
                sessions[session] = None
                if works and tp not in session.due:
                    reader = session.reader(tp, session.named[tp].request)
                    if not isinstance(reader, ErrorCode):
                        self._check_none_forgotten(tp, session, reader)
        self._late.seen = {session: late for session, late in self._late.seen.items() if session in sessions}
        self._ready = {session: ready for session, ready in self._ready.items() if session in sessions}
        for session in sessions:
            deadline_ms = None if session.pending is None else session.pending.deadline_ms
            self._late.check(session, deadline_ms, now_ms, f"broker {self._broker_id}: a fetch")
            self._check_awake(session, now_ms)
        return sum(map(len, self._manager.sessions.watching.values()))

    def _check_none_forgotten(self, tp: TopicPartition, session: Session, reader: Reader) -> None:
        """FE-17: if a partition is not due, its reader has all its data and knows its high watermark."""
        named = session.named[tp]
        has, all_there = named.request.fetch_offset, reader.log.limit(session.isolation)
        known, now = named.sent_bounds and named.sent_bounds[0], reader.log.high_watermark
        epoch = named.request.current_leader_epoch
        if has < all_there or known != now or epoch not in (None, reader.leader_epoch):
            raise Violation(
                "INV-19",
                f"broker {self._broker_id}: nothing of {tp} is due to a reader at {has} in epoch {epoch} that "
                f"knows the high watermark {known}; the replica in epoch {reader.leader_epoch} has {all_there} for it, "
                f"its high watermark is {now}",
            )

    def _check_awake(self, session: Session, now_ms: int) -> None:
        """Raise Violation if a fetch that could be answered still waits after `WAKING_MS`."""
        if session.pending is None or not self._could_be_answered(session):
            self._ready.pop(session, None)
            return
        if session not in self._ready or self._ready[session][0] is not session.pending:
            self._ready[session] = session.pending, now_ms
        _, since_ms = self._ready[session]
        if now_ms - since_ms > WAKING_MS:
            raise Violation(
                "INV-19",
                f"broker {self._broker_id}: what a fetch waits for came {now_ms - since_ms} ms ago, and "
                "nobody has told it",
            )

    def _could_be_answered(self, session: Session) -> bool:
        """Return True if the fetch that waits could be answered now. Never under a throttle, which wakes nobody when it
        has room again (FE-23); partitions whose data is being read from the disk do not count (divergence 34)."""
        total = 0
        for tp in session.due:
            named, hosted = session.named[tp], self._replicas.hosted.get(tp)
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
