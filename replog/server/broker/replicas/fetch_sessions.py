"""The fetch sessions of followers and consumers, and what wakes them (PR-6)."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import structlog

from leader.fetch_session import FetchSession
from replog.errors import ErrorCode
from replog.log.fetch import Shared
from replog.log.files.cold import ColdRead
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.byte_pool import BytePool
from replog.server.broker.replicas.cold_reads import ColdReads
from replog.topic import TopicPartition

log = structlog.get_logger()

TOLD_AT_ONCE = 2  # sessions that look at their partitions in a step: each may take some milliseconds
MAX_CONSUMED = 200_000  # partitions of all consumers' sessions together, at 0.6 KiB each


class FetchSessions:
    """The sessions by partition. `wake` has `answer_some` called soon, after all other work that is ready."""

    def __init__(self, context: BrokerContext, wake: Callable[[], None]) -> None:
        self.watching: dict[TopicPartition, dict[FetchSession[Any], None]] = {}
        self.shared: Shared | None = None  # set while several sessions look
        self.cold_reads = ColdReads(self.answer)
        self.answers = BytePool(context.config.queued_max_response_bytes)  # consumers share it; followers have room
        self._clock = context.clock
        self._broker_id = context.config.node_id
        self._wake = wake
        self._consumed = 0  # partitions of consumers' sessions
        self._marked: dict[FetchSession[Any], None] = {}  # sessions that will look at their partitions

    def watch(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        """Mark `tp` in this session at every event of it.

        Raises THROTTLING_QUOTA_EXCEEDED if consumers fetch too many partitions. A follower always has room."""
        if session.is_bounded:
            if self._consumed >= MAX_CONSUMED:
                raise ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
                    f"broker {self._broker_id} serves consumers of {MAX_CONSUMED} partitions together, no more; "
                    "close some, or try again"
                )
            self._consumed += 1
        self.watching.setdefault(tp, {})[session] = None

    def unwatch(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        sessions = self.watching[tp]
        del sessions[session]
        self.cold_reads.forget(tp, session)
        self._consumed -= session.is_bounded
        if not sessions:
            del self.watching[tp]

    def bring(self, tp: TopicPartition, session: FetchSession[Any], cold: ColdRead) -> None:
        self.cold_reads.ask(tp, session, cold)

    def go_on(self, session: FetchSession[Any]) -> None:
        """Have the session look at its marked partitions soon."""
        self._marked[session] = None
        self._wake()

    def mark(self, tp: TopicPartition) -> None:
        """Mark `tp` at once, and have its sessions look soon: a request of a session that is not marked means that
        nothing has changed."""
        for session in self.watching.get(tp, ()):
            session.mark(tp)
            self.go_on(session)

    @property
    def any_marked(self) -> bool:
        return bool(self._marked)

    def answer_some(self) -> None:
        """Have some of the marked sessions look."""
        self.answer(tuple(islice(self._marked, TOLD_AT_ONCE)))

    def answer(self, sessions: Iterable[FetchSession[Any]]) -> None:
        """Have sessions look at their marked partitions. Followers that ask for the same share a read of the log and a
        message."""
        now_ms, self.shared = self._clock.monotonic_ms(), {}
        for session in sessions:
            self._marked.pop(session, None)
            try:
                session.on_moved(now_ms)
            except Exception:
                log.exception("answering a fetch failed")
        self.shared = None

    def answer_now(self, tp: TopicPartition) -> None:
        """Answer all sessions that wait on a deleted partition."""
        sessions = tuple(self.watching.get(tp, ()))
        for session in sessions:
            session.mark(tp)
        self.answer(sessions)
