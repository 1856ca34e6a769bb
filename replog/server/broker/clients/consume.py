"""A consumer's stream on the event loop: a request is answered when there is enough to read, and room for it (§4)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from leader.consumer_session import ConsumerSession
from replog.fetch import SessionRequest, SessionResponse
from replog.server.broker.replicas.budget import Share
from replog.server.broker.replicas.replica_manager import ReplicaManager

COLD_WAIT_MS = 10_000  # of a call with a session of its own: if it did not wait, its like would find nothing for ever


class ConsumerStream:
    """Its session, one request at a time."""

    def __init__(self, manager: ReplicaManager, *, cold_wait_ms: int = 0) -> None:
        """`cold_wait_ms`: as `FetchSession`."""
        self._manager = manager
        self._cold_wait_ms = cold_wait_ms
        self._ready = asyncio.Event()
        self._session = self._new_session()

    def _new_session(self) -> ConsumerSession:
        config = self._manager.config
        return ConsumerSession(
            self._manager,
            self._ready.set,
            max_bytes=config.fetch_max_bytes,
            max_wait_ms=config.request_timeout_ms,
            cold_wait_ms=self._cold_wait_ms,
        )

    @contextlib.asynccontextmanager
    async def answered(self, request: SessionRequest, *, goes_on: bool) -> AsyncIterator[SessionResponse]:
        """The answer, once there is something to say (FE-8 to FE-13); the block hands it to the reader.

        From the read to the end of the block it has room in the broker's budget; without room in time it comes without
        records. A request that does not go on from the last one names everything that it wants.
        """
        if not goes_on:
            self.close()
            self._session = self._new_session()
        self._ready.clear()
        manager, session = self._manager, self._session
        most = min(request.max_bytes, manager.config.fetch_max_bytes)
        async with manager.answers.share(most) as share:
            response = session.on_request(request, manager.clock.monotonic_ms(), share.size)
            if response is not None:
                self._taken(response, share)
                yield response
                return
        await self._wait()
        async with manager.answers.share(most) as share:
            response = session.answer(manager.clock.monotonic_ms(), share.size)
            self._taken(response, share)
            yield response

    def _taken(self, response: SessionResponse, share: Share) -> None:
        share.resize(response.size)
        if response.size:
            self._manager.pace.served()

    async def _wait(self) -> None:
        deadline_ms = self._session.deadline_ms
        assert deadline_ms is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((deadline_ms - self._manager.clock.monotonic_ms()) / 1000):
                await self._ready.wait()

    def close(self) -> None:
        self._session.close()
