"""The fetch sessions of followers and consumers, what wakes them (PR-6), and reads of what is not in memory."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from leader.fetch_session import FetchSession
from replog.errors import ErrorCode
from replog.log.fetch import Shared
from replog.log.files.cold import ColdRead
from replog.log.files.opening import bring
from replog.rpc.fair_queue import FairQueue
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.byte_pool import BytePool
from replog.server.work import in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()

TOLD_AT_ONCE = 2  # sessions that look at their partitions in a step: each may take some milliseconds
MAX_CONSUMED = 200_000  # partitions of all consumers' sessions together, at 0.6 KiB each
MOST_READS = 8  # reads at once: a session that waits for one of them waits for all

_Place = tuple[FetchSession[Any], TopicPartition]


@dataclass(slots=True)
class _Disk:
    wanted: dict[_Place, ColdRead] = field(default_factory=dict)
    line: FairQueue[FetchSession[Any], _Place] = field(default_factory=FairQueue)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> dict[_Place, ColdRead]:
        """Take the next reads, one from each session in turn."""
        places = [self.line.take() for _ in range(min(MOST_READS, len(self.line)))]
        if not self.line:
            self.wake.clear()
        return {place: self.wanted.pop(place) for place in places}


class ColdReads:
    """Brings bytes that fetches miss into memory: one thread for each disk, the sessions in turn (divergence 34).
    `notify` has sessions look at what was brought."""

    def __init__(self, notify: Callable[[Iterable[FetchSession[Any]]], None]) -> None:
        self._notify = notify
        self._disks: defaultdict[Path, _Disk] = defaultdict(_Disk)

    def ask(self, tp: TopicPartition, session: FetchSession[Any], cold: ColdRead) -> None:
        """Ask for a read. It replaces the session's earlier one of this partition."""
        disk = self._disks[Path(cold.path).parent.parent]
        disk.line.add(session, (session, tp))
        disk.wanted[session, tp] = cold
        disk.wake.set()

    def forget(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        for disk in self._disks.values():
            disk.line.remove(session, (session, tp))
            disk.wanted.pop((session, tp), None)

    async def run(self, disks: Iterable[Path]) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for disk in disks:
                group.create_task(self._run(self._disks[disk]))

    async def _run(self, disk: _Disk) -> None:
        while True:
            await disk.wake.wait()
            taken = disk.take()
            await in_thread(partial(_bring, list(taken.values())))
            for (session, tp), cold in taken.items():
                session.on_brought(tp, cold)
            self._notify({session: None for session, _ in taken})


def _bring(colds: Sequence[ColdRead]) -> None:
    for cold in colds:
        bring(cold)


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
