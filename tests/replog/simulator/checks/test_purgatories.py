"""Operations that outlive their deadline, and sessions that forget what a reader lacks: by hand, and nearly."""

from leader.consumer_session import ConsumerSession
from leader.delayed_produce import DelayedProduce, PendingProduce
from replog.log.fetch import CONSUMER, FetchPartition, SessionRequest
from replog.log.offsets import Isolation
from replog.metadata.values import NO_BROKER_EPOCH
from replog.purgatory.purgatory import DelayedOperation
from replog.simulator.checks.broker_check import PURGATORY_STEPS
from replog.topic import TopicPartition
from tests.leader.replicas import ONE_MIB, TP
from tests.replog.simulator.checks.tiny import TinyWorld, violates


class Waiting(DelayedOperation[TopicPartition]):
    def try_complete(self, moved: object) -> bool:
        return False

    def on_complete(self) -> None:
        pass


def _steps(world: TinyWorld, after_ms: int, broker_id: int = 1) -> None:
    world.clock.now_ms += after_ms
    for _ in range(PURGATORY_STEPS):
        world.step(broker_id)


async def _park(world: TinyWorld) -> Waiting:
    operation = Waiting(timeout_ms=5000)
    world.brokers[1].manager.produces.complete_or_watch(operation, [TP])
    return operation


async def test_inv_19_an_operation_waits_beyond_its_deadline(world):
    await _park(world)
    for after_ms in (4000, 1500, 800):
        _steps(world, after_ms)
    with violates("INV-19", "broker 1: a produce"):
        _steps(world, 400)


async def test_inv_19_a_broker_that_was_paused_first_works_off_what_is_due(world):
    """INV-19, nearly"""
    operation = await _park(world)
    _steps(world, 60_000)
    _steps(world, 900)
    world.brokers[1].manager.produces._expire()
    assert operation.completed
    _steps(world, 5000)


async def test_inv_19_an_operation_without_a_deadline_is_forgotten(world):
    await _park(world)
    world.brokers[1].manager.produces.purgatory._deadlines.clear()
    with violates("INV-19", "a produce on t-0 waits without a deadline"):
        _steps(world, 1)


async def test_inv_19_an_operation_that_completed_is_still_listed(world):
    """INV-19, by divergence 28."""
    operation = await _park(world)
    operation.leave = None
    operation.force_complete()
    with violates("INV-19", "a produce on t-0 is answered, and still waits"):
        _steps(world, 1)


def _produce(world: TinyWorld) -> DelayedProduce:
    manager = world.brokers[1].manager
    end = world.hosted(1).log.log_end_offset
    produce = DelayedProduce({0: PendingProduce(TP, end, 0)}, manager.replicas.leader, 5000, lambda _: None)
    manager.produces.complete_or_watch(produce, [TP])
    return produce


async def test_inv_19_nobody_tells_a_produce_that_its_records_are_committed(world):
    """INV-19, by PG-6."""
    world.append(1)
    _produce(world)
    _steps(world, 100)
    world.commit(1, 2, 3)
    _steps(world, 0)
    _steps(world, 40)  # nearly: it may be told yet
    with violates("INV-19", "what a produce on t-0 waits for came 100 ms ago"):
        _steps(world, 60)


def _consumer(world: TinyWorld) -> ConsumerSession:
    """It waits on broker 2, a follower, at the end of what is committed."""
    manager = world.brokers[2].manager
    session = ConsumerSession(manager.sessions, manager.replicas, lambda: None, max_bytes=ONE_MIB, max_wait_ms=30_000)
    for named in ({TP: FetchPartition(world.hosted(2).log.high_watermark, ONE_MIB)}, {}):
        request = SessionRequest(
            CONSUMER, NO_BROKER_EPOCH, 5000, 1, ONE_MIB, named, isolation=Isolation.HIGH_WATERMARK, rack=""
        )
        session.on_request(request)
        assert session.ask(request, world.clock.monotonic_ms(), ONE_MIB) is None
        if named:
            session.answer(world.clock.monotonic_ms(), ONE_MIB)
    return session


async def test_inv_19_nobody_marks_what_a_consumer_has_not_read(world):
    """INV-19, by FE-14 (KAFKA-14334)."""
    _consumer(world)
    _steps(world, 100, 2)
    world.append(1)
    world.commit(1, 2, 3)
    with violates("INV-19", "broker 2: nothing of t-0 is due to a reader at 5"):
        _steps(world, 1, 2)


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
        _steps(world, 30, 2)
    with violates("INV-19", "broker 2: what a fetch waits for came"):
        _steps(world, 30, 2)
