"""Delayed operations that outlive their deadline: INV-19, broken by hand, and nearly broken."""

from leader.delayed_produce import DelayedProduce, PendingProduce
from replog.purgatory.purgatory import DelayedOperation
from replog.simulator.checks.broker_check import PURGATORY_STEPS
from replog.topic import TopicPartition
from tests.leader.replicas import TP
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
