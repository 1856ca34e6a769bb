"""A consumer's stream on the event loop: a request is answered when there is enough to read, and room for it (§4)."""

import asyncio

from leader.consumer_session import ConsumerSession
from replog.errors import ErrorCode
from replog.fetch import SessionRequest, SessionResponse
from replog.server.authorizer import Permits
from replog.server.broker.replicas.budget import Share
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.replicas.traffic import CONSUMER
from replog.server.slices import SLICE, in_slices

COLD_WAIT_MS = 10_000  # of a call with a session of its own: if it did not wait, its like would find nothing for ever


class ConsumerStream:
    """Its session, one request at a time."""

    def __init__(self, manager: ReplicaManager, permits: Permits, *, cold_wait_ms: int = 0) -> None:
        """`cold_wait_ms`: as `FetchSession`."""
        self._manager = manager
        self._permits = permits
        self._cold_wait_ms = cold_wait_ms
        self._ready = asyncio.get_running_loop().create_future()
        self._session = self._new_session()

    def _new_session(self) -> ConsumerSession:
        config = self._manager.config
        return ConsumerSession(
            self._manager,
            self._on_ready,
            max_bytes=config.fetch_max_bytes,
            max_wait_ms=config.request_timeout_ms,
            cold_wait_ms=self._cold_wait_ms,
            permits=self._permits,
        )

    def _on_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    async def answer(self, request: SessionRequest, share: Share, *, goes_on: bool) -> SessionResponse:
        """The answer, once there is something to say (FE-8 to FE-13). `share` holds its room in the broker's budget;
        the caller gives that back when the reader has taken the answer.

        Without room in time it comes without records. If nothing is due there is nothing to read, and no room is asked
        for. A request that does not go on from the last one names everything that it wants."""
        begun_s = self._manager.clock.monotonic_s()
        if not goes_on:
            self.close()
            self._session = self._new_session()
        self._ready = asyncio.get_running_loop().create_future()
        clock, session = self._manager.clock, self._session
        most = min(request.max_bytes, self._manager.config.fetch_max_bytes)
        if len(request.named) + len(request.forgotten) <= SLICE:
            session.on_request(request)
        else:
            session.on_request(request._replace(named={}, forgotten=()))
            async for tp in in_slices(request.forgotten):
                session.forget(tp)
            async for tp, fetch in in_slices(request.named.items()):
                session.name(tp, fetch)
        room = await self._room(share, most)
        response = session.ask(request, clock.monotonic_ms(), room)
        while response is None:
            share.resize(0)
            await self._wait()
            room = await self._room(share, most)
            response = session.answer(clock.monotonic_ms(), room)
        traffic = self._manager.traffic
        traffic.fetched(CONSUMER, response.rows)
        traffic.answered(CONSUMER, begun_s)
        share.resize(response.size)
        if response.size:
            self._manager.pace.served()
        return response

    async def _room(self, share: Share, most: int) -> int:
        room = await share.take(most) if self._session.due else 0
        if self._cold_wait_ms and self._session.due and not room:  # no later answer of the session says more
            raise ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
                f"broker {self._manager.config.node_id} has no room for an answer; try again, or fetch on a stream"
            )
        return room

    async def _wait(self) -> None:
        """Until the session is ready, at the latest at its deadline."""
        deadline_ms = self._session.deadline_ms
        assert deadline_ms is not None
        delay_s = (deadline_ms - self._manager.clock.monotonic_ms()) / 1000
        timer = asyncio.get_running_loop().call_later(max(0.0, delay_s), self._on_ready)
        try:
            await self._ready
        finally:
            timer.cancel()
            self._ready = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self._session.close()
        del self._session  # it refers back here: both would stay until the garbage collector looks at all objects
