"""Delayed operations that outlive their deadline: INV-19, broken by hand, and nearly broken."""

import asyncio
from pathlib import Path

from cluster.simulation.checks.broker import PURGATORY_STEPS
from replog.purgatory.operation import DelayedOperation
from tests.cluster.simulation.checks.tiny import TinyWorld, three, violates
from tests.leader.replicas import TP


class Waiting(DelayedOperation):
    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass


def _steps(world: TinyWorld, after_ms: int) -> None:
    world.clock.now_ms += after_ms
    for _ in range(PURGATORY_STEPS):
        world.step(1)


async def _park(world: TinyWorld) -> Waiting:
    operation = Waiting(timeout_ms=5000)
    world.brokers[1].manager.produces.complete_or_watch(operation, [TP])  # type: ignore[union-attr]
    return operation


async def test_inv_19_an_operation_waits_beyond_its_deadline(tmp_path: Path) -> None:
    world = three(tmp_path, "0:0-4")
    await _park(world)
    for after_ms in (4000, 1500, 800):
        _steps(world, after_ms)
    with violates("INV-19", "broker 1: a produce"):
        _steps(world, 400)


async def test_inv_19_a_broker_that_was_paused_first_works_off_what_is_due(tmp_path: Path) -> None:
    """INV-19, nearly"""
    world = three(tmp_path, "0:0-4")
    operation = await _park(world)
    _steps(world, 60_000)
    _steps(world, 900)
    world.brokers[1].manager.produces._expire()  # type: ignore[union-attr]
    assert operation.completed
    _steps(world, 5000)


async def test_inv_19_an_operation_without_a_deadline_is_forgotten(tmp_path: Path) -> None:
    world = three(tmp_path, "0:0-4")
    operation = await _park(world)
    operation.stop_timer()
    with violates("INV-19", "a produce on t-0 waits without a deadline"):
        _steps(world, 1)


async def test_inv_19_an_operation_that_completed_may_linger_in_a_list(tmp_path: Path) -> None:
    """INV-19, nearly (PG-10)"""
    world = three(tmp_path, "0:0-4")
    operation = await _park(world)
    operation.force_complete()
    _steps(world, 60_000)
    await asyncio.sleep(0)
