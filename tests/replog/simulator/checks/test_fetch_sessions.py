"""Fetch sessions that forget or sleep on what their reader lacks: INV-19, broken by hand, and nearly broken."""

from leader.consumer_session import ConsumerSession
from replog.log.fetch import CONSUMER, FetchPartition, SessionRequest
from replog.log.offsets import Isolation
from replog.metadata.values import NO_BROKER_EPOCH
from replog.simulator.checks.broker_check import PURGATORY_STEPS
from tests.leader.replicas import ONE_MIB, TP
from tests.replog.simulator.checks.tiny import TinyWorld, violates


def _steps(world: TinyWorld, after_ms: int) -> None:
    world.clock.now_ms += after_ms
    for _ in range(PURGATORY_STEPS):
        world.step(2)


def _consumer(world: TinyWorld) -> ConsumerSession:
    """It waits on broker 2, a follower, at the end of what is committed."""
    manager = world.brokers[2].manager
    session = ConsumerSession(manager.sessions, manager.replicas, lambda: None, max_bytes=ONE_MIB, max_wait_ms=30_000)
    end = world.hosted(2).log.high_watermark
    for named in ({TP: FetchPartition(end, ONE_MIB)}, {}):
        request = SessionRequest(
            CONSUMER, NO_BROKER_EPOCH, 5000, 1, ONE_MIB, named, isolation=Isolation.HIGH_WATERMARK, rack=""
        )
        session.on_request(request)
        assert session.ask(request, world.clock.now_ms, ONE_MIB) is None
        if named:
            session.answer(world.clock.now_ms, ONE_MIB)
    return session


async def test_inv_19_nobody_marks_what_a_consumer_has_not_read(world):
    """INV-19, by FE-14 (KAFKA-14334)."""
    _consumer(world)
    _steps(world, 100)
    world.append(1)
    world.commit(1, 2, 3)
    with violates("INV-19", "broker 2: nothing of t-0 is due to a reader at 5"):
        _steps(world, 1)


def _told(world: TinyWorld) -> ConsumerSession:
    """A consumer's session that was told of a committed record."""
    session = _consumer(world)
    world.append(1)
    world.commit(1, 2, 3)
    session.mark(TP)
    return session


async def test_inv_19_nobody_tells_a_fetch_that_there_is_something_to_read(world):
    """INV-19, by PG-6."""
    _told(world)
    for _ in range(2):
        _steps(world, 30)
    with violates("INV-19", "broker 2: what a fetch waits for came"):
        _steps(world, 30)
