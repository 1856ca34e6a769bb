"""Producer ids for clients, from blocks that the controller gives this broker."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.transport import Channel
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.identity import Identity

TIMEOUT_S = 2.0  # how long a client waits for its id; less than it waits for a broker
KNOWN_WITHIN_S = 0.5  # how long brokers may take to learn of a block: a leader that has not refuses its ids (D37)


@dataclass(eq=False)
class ProducerIds:
    """Gives out each id once. The rest of a block is lost when the broker stops; there are plenty."""

    _identity: Identity
    controller: Channel
    _until_known: Callable[[int], Awaitable[None]]  # returns when the metadata here say that an id was given
    _block: range = range(0)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)  # otherwise each client that waits would ask

    async def next_id(self) -> int:
        """Return the next id, of a new block if needed. Raises BROKER_NOT_AVAILABLE, which is retriable."""
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
        response: pb.AllocateProducerIdsResponse = await self.controller.call(
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
            f"{self.controller.address}: {why}; try again"
        )
