"""Questions whether a broker's process is gone, or answers.

Is it gone? The controller asks when its metadata stream is lost, since a dead process loses its connections, and when
another process registers in its place. Only two answers count: its address refuses connections, or another process
answers there. Otherwise the session decides (CT-6, CT-21, divergence 25).

Does it answer? The controller asks before it gets the leadership of another broker (CT-22): its session may outlive
it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

import structlog

from replog.errors import ReplogError
from replog.metadata.values import NONCE_SIZE, BrokerRegistration, is_same, proof
from replog.rpc import methods
from replog.rpc.tasks import end
from replog.rpc.transport import Transport
from replog.rpc.v1 import presence_pb2 as pb

log = structlog.get_logger()

PATIENCE_S = 2.0  # how long a question whether it is gone waits
PRESENT_S = 1.0  # how long a question whether it answers waits
ASKED_AFTER_S = (0.0, 0.02, 0.1, 0.3, 1.0, 2.0)  # a process that ends may still be closing its files


@dataclass(eq=False)
class Inquiries:
    """Asks about brokers, at most one question at a time about each."""

    _transport: Transport
    _rng: random.Random
    _missing: Callable[[BrokerRegistration], bool]  # True if it is still worth asking
    _gone: Callable[[BrokerRegistration], Awaitable[None]]  # called with a broker whose process is gone
    _running: dict[int, asyncio.Task[None]] = field(default_factory=dict)

    def begin(self, broker: BrokerRegistration) -> None:
        running = self._running.get(broker.broker_id)
        if running is None or running.done():
            self._running[broker.broker_id] = asyncio.create_task(self._inquire(broker), name="inquire")

    async def present(self, brokers: Collection[BrokerRegistration]) -> frozenset[int]:
        """Return the ids of brokers whose process answers now."""
        answers = await asyncio.gather(*(self._is_there(broker, PRESENT_S) for broker in brokers))
        return frozenset(broker.broker_id for broker, is_there in zip(brokers, answers, strict=True) if is_there)

    async def close(self) -> None:
        await end(*self._running.values())

    async def _inquire(self, broker: BrokerRegistration) -> None:
        for wait_s in ASKED_AFTER_S:
            await asyncio.sleep(wait_s)
            if not self._missing(broker):
                return
            is_gone = await self._is_gone(broker)
            if is_gone is False:
                return
            if is_gone:
                await self._gone(broker)
                return
        log.info("a broker's metadata stream is lost, and nobody answers for it", broker=broker.broker_id)

    async def _is_gone(self, broker: BrokerRegistration) -> bool | None:
        """Return True if the process is gone, False if it is not, None if that is not known."""
        if await self._transport.is_refused(broker.address, PATIENCE_S):
            return True
        is_there = await self._is_there(broker, PATIENCE_S)
        return None if is_there is None else not is_there

    async def _is_there(self, broker: BrokerRegistration, patience_s: float) -> bool | None:
        """Return True if the process answers, False if another one does, None if none does."""
        nonce = self._rng.randbytes(NONCE_SIZE)
        request = pb.AreYouRequest(broker_id=broker.broker_id, nonce=nonce)
        channel = self._transport.connect(broker.address)
        try:
            answer = await channel.call(methods.Presence["are_you"], request, patience_s)
        except ReplogError:
            return None
        finally:
            await channel.close()
        return is_same(answer.proof, proof(broker.incarnation_id, broker.broker_id, nonce))
