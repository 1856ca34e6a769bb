"""A consumer's stream: a request is answered when there is enough to read, and room for the answer (§4)."""

import asyncio

from leader.consumer_session import ConsumerSession
from replog.errors import ErrorCode
from replog.log.fetch import SessionRequest, SessionRow, size_of
from replog.server.authorizer import Permits
from replog.server.broker.context import CONSUMER
from replog.server.broker.replicas.byte_pool import Lease
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.work import SLICE, in_slices

COLD_WAIT_MS = 10_000  # a single call waits for cold reads: without a session, every call would find nothing


class ConsumerStream:
    """Answers the requests of a session, one at a time."""

    def __init__(self, manager: ReplicaManager, permits: Permits, *, cold_wait_ms: int = 0) -> None:
        self._manager = manager
        self._context = manager.context
        self._permits = permits
        self._cold_wait_ms = cold_wait_ms
        self._ready = asyncio.get_running_loop().create_future()
        self._session = self._new_session()

    def _new_session(self) -> ConsumerSession:
        config = self._context.config
        return ConsumerSession(
            self._manager.sessions,
            self._manager.replicas,
            self._on_ready,
            max_bytes=config.fetch_max_bytes,
            max_wait_ms=config.request_timeout_ms,
            cold_wait_ms=self._cold_wait_ms,
            permits=self._permits,
        )

    def _on_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    async def answer(self, request: SessionRequest, share: Lease, *, goes_on: bool) -> list[SessionRow]:
        """Wait until there is something to say, and return the answer (FE-8 to FE-13). `share` holds its room in the
        broker's pool; the caller frees it when the reader has taken the answer.

        Without room in time the answer has no records. A request that does not go on from the last one names everything
        that it wants."""
        begun_s = self._context.clock.monotonic_s()
        if not goes_on:
            self.close()
            self._session = self._new_session()
        self._ready = asyncio.get_running_loop().create_future()
        clock, session = self._context.clock, self._session
        most = min(request.max_bytes, self._context.config.fetch_max_bytes)
        if len(request.named) + len(request.forgotten) <= SLICE:  # slices would cost every small fetch two microseconds
            session.on_request(request)
        else:
            session.on_request(request._replace(named={}, forgotten=()))
            async for tp in in_slices(request.forgotten):
                session.forget(tp)
            async for tp, fetch in in_slices(request.named.items()):
                session.name(tp, fetch)
        room = await self._room(share, most)
        rows = session.ask(request, clock.monotonic_ms(), room)
        while rows is None:
            share.resize(0)
            await self._wait()
            room = await self._room(share, most)
            rows = session.answer(clock.monotonic_ms(), room)
        traffic = self._context.traffic
        traffic.fetched(CONSUMER, rows)
        traffic.answered(CONSUMER, begun_s)
        share.resize(size := size_of(rows))
        if size:
            self._context.throttle.served()
        return rows

    async def _room(self, share: Lease, most: int) -> int:
        room = await share.take(most) if self._session.due else 0
        if self._cold_wait_ms and self._session.due and not room:  # a single call has no later answer
            raise ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
                f"broker {self._context.config.node_id} has no room for an answer; try again, or fetch on a stream"
            )
        return room

    async def _wait(self) -> None:
        """Wait until the session is ready, at the latest until its deadline."""
        deadline_ms = self._session.deadline_ms
        assert deadline_ms is not None
        delay_s = (deadline_ms - self._context.clock.monotonic_ms()) / 1000
        timer = asyncio.get_running_loop().call_later(max(0.0, delay_s), self._on_ready)
        try:
            await self._ready
        finally:
            timer.cancel()
            self._ready = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self._session.close()
        del self._session  # it refers back here; otherwise both would stay until the next full garbage collection
