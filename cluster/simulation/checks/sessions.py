"""Fetch sessions of a live leader: none forgets what a follower lacks, none sleeps on (INV-19)."""

from cluster.broker.replica_manager import ReplicaManager
from cluster.simulation.checks.purgatories import SLACK_MS, WAKING_MS
from cluster.simulation.checks.violation import Violation
from cluster.simulation.process import SimulatedProcess
from leader.delayed_fetch import available_bytes
from leader.fetch_session import FetchSession
from leader.partition import PartitionLeader
from replog.log.offsets import Isolation
from replog.topic import TopicPartition


class Sessions:
    """Those of one broker."""

    def __init__(self, broker_id: int, manager: ReplicaManager, process: SimulatedProcess) -> None:
        self._broker_id = broker_id
        self._manager = manager
        self._process = process
        self._late: dict[FetchSession, tuple[int, int]] = {}  # the deadline, and when it was first seen to have passed
        self._ready: dict[FetchSession, tuple[object, int]] = {}  # what could be answered at the last look, since when

    def check(self) -> int:
        """How many of their partitions were looked at."""
        now_ms = self._manager.clock.monotonic_ms() - int(self._process.waited_s * 1000)
        sessions: dict[FetchSession, None] = {}
        for tp, watching in self._manager._sessions.items():
            hosted = self._manager.hosted.get(tp)
            leader = None if hosted is None or hosted.log.failure is not None else hosted.leader
            for session in watching:
                sessions[session] = None
                if leader is not None and tp not in session._due:
                    self._check_none_forgotten(tp, session, leader)
        self._late = {session: late for session, late in self._late.items() if session in sessions}
        self._ready = {session: ready for session, ready in self._ready.items() if session in sessions}
        for session in sessions:
            self._check_deadline(session, now_ms)
            self._check_awake(session, now_ms)
        return sum(map(len, self._manager._sessions.values()))

    def _check_none_forgotten(self, tp: TopicPartition, session: FetchSession, leader: PartitionLeader) -> None:
        """What is not due has nothing to say: the follower has all, and knows the high watermark (FE-17)."""
        named = session._named[tp]
        has, all_there = named.request.fetch_offset, leader.log.log_end_offset
        told, now = named.told and named.told[0], leader.log.high_watermark
        if has != all_there or told != now or named.request.current_leader_epoch != leader.leader_epoch:
            raise Violation(
                "INV-19",
                f"broker {self._broker_id}: nothing of {tp} is due to a follower at {has} in epoch "
                f"{named.request.current_leader_epoch} that knows the high watermark {told}; the leader of epoch "
                f"{leader.leader_epoch} is at {all_there}, its high watermark {now}",
            )

    def _check_deadline(self, session: FetchSession, now_ms: int) -> None:
        deadline_ms = None if session._parked is None else session._parked.deadline_ms
        if deadline_ms is None or deadline_ms >= now_ms:
            self._late.pop(session, None)
        elif session not in self._late or self._late[session][0] != deadline_ms:
            self._late[session] = deadline_ms, now_ms
        elif now_ms - self._late[session][1] > SLACK_MS:
            raise Violation(
                "INV-19",
                f"broker {self._broker_id}: a follower's fetch due at {deadline_ms} ms is not answered at {now_ms}",
            )

    def _check_awake(self, session: FetchSession, now_ms: int) -> None:
        """Between two looks the loop gets round to telling a session what has come."""
        if session._parked is None or not self._could_be_answered(session):
            self._ready.pop(session, None)
            return
        if session not in self._ready or self._ready[session][0] is not session._parked:
            self._ready[session] = session._parked, now_ms
        _, since_ms = self._ready[session]
        if now_ms - since_ms > WAKING_MS:
            raise Violation(
                "INV-19",
                f"broker {self._broker_id}: what a follower's fetch waits for came {now_ms - since_ms} ms ago, and "
                "nobody has told it",
            )

    def _could_be_answered(self, session: FetchSession) -> bool:
        """Not of what a throttle holds back: that it lets something through again nobody tells (FE-23)."""
        total = 0
        for tp in session._due:
            named, hosted = session._named[tp], self._manager.hosted.get(tp)
            if hosted is not None and (hosted.log.failure is not None or hosted.leader_throttled):
                return False
            leader = self._manager.leader_for_fetch(tp, named.request)
            available = available_bytes(leader, named.request, named.place, Isolation.LOG_END)
            if available is None:
                return True
            total += available
        return session._parked is not None and total >= session._parked.awaited.min_bytes
