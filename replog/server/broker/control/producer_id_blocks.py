"""Producer ids for clients, from blocks that the controller gives this broker."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.transport import Channel
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.identity import Identity

TIMEOUT_S = 2.0  # of one client's wait for its id; less than it waits for a broker
KNOWN_WITHIN_S = 0.5  # until brokers have heard of a new block; a leader that has not refuses its ids (divergence 37)


class ProducerIds:
    """Each id is handed out once; what is left of a block when the broker stops is lost, and there are plenty."""

    def __init__(self, identity: Identity, controller: Channel, until_known: Callable[[int], Awaitable[None]]) -> None:
        """`until_known`: returns when this broker's metadata say that an id was given to a broker."""
        self._identity = identity
        self._controller = controller
        self._until_known = until_known
        self._block = range(0)
        self._asking = asyncio.Lock()  # one request at a time, which serves all who wait

    @property
    def controller(self) -> str:
        """Where it was last found."""
        return self._controller.address

    async def next_id(self) -> int:
        """The next id, fetching a block when there is none. Raises BROKER_NOT_AVAILABLE, which may pass."""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._asking:
                if not self._block:
                    self._block = await self._next_block()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(KNOWN_WITHIN_S):
                            await self._until_known(self._block[-1])
                first, self._block = self._block[0], self._block[1:]
                return first
        except TimeoutError:
            raise self._unavailable(f"no answer within {TIMEOUT_S:g} s") from None
        except ReplogError as error:
            raise self._unavailable(str(error)) from error

    async def _next_block(self) -> range:
        request = pb.AllocateProducerIdsRequest(**self._identity.claim())
        response: pb.AllocateProducerIdsResponse = await self._controller.call(
            methods.Controller["allocate_producer_ids"], request, TIMEOUT_S
        )
        if response.first_producer_id < 0 or response.count <= 0:
            raise ErrorCode.INVALID_REQUEST.error(
                f"{response.count} ids from {response.first_producer_id} on are no block"
            )
        return range(response.first_producer_id, response.first_producer_id + response.count)

    def _unavailable(self, why: str) -> ReplogError:
        return ErrorCode.BROKER_NOT_AVAILABLE.error(
            f"broker {self._identity.broker_id} gets no producer ids from the controller at "
            f"{self._controller.address}: {why}; try again"
        )
