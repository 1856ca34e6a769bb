"""Last stable offsets, by hand: PS-5."""

from pathlib import Path

from replog.log.offsets import AppendOrigin
from tests.replog.log.producers.writes import batch, marker
from tests.replog.simulator.checks.tiny import TinyWorld, alone, three, violates

PRODUCER = 7


def _leads_with(world: TinyWorld, *batches: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    """Broker 1 appends them, alone in the in-sync set: they are committed at once."""
    leader = world.leader(1)
    for data in batches:
        leader.log.append_as_leader(data, leader_epoch=leader.leader_epoch, now_ms=0, origin=origin)
        leader.advance_high_watermark(world.clock.now_ms)
    world.step(1)


def _alone(directory: Path) -> TinyWorld:
    world = alone(directory)
    _leads_with(world, batch(0, 0, 2, pid=PRODUCER, transactional=True))
    return world


def test_a_transaction_that_ends_is_stable(tmp_path):
    world = _alone(tmp_path)
    assert world.hosted(1).log.last_stable_offset == 0
    _leads_with(world, marker(PRODUCER, commit=True), origin=AppendOrigin.COORDINATOR)
    assert world.hosted(1).log.last_stable_offset == 3


def test_ps_5_an_open_transaction_is_exposed(tmp_path):
    world = _alone(tmp_path)
    world.hosted(1).log.producers.first_unstable_offset = None
    with violates("PS-5", "last stable offset is 3; its batches say 0"):
        _leads_with(world, batch(0, 0, pid=PRODUCER + 1))


def test_ps_5_what_was_stable_is_so_no_longer(tmp_path):
    world = _alone(tmp_path)
    _leads_with(world, marker(PRODUCER, commit=True), origin=AppendOrigin.COORDINATOR)
    world.hosted(1).log.producers.first_unstable_offset = 1
    with violates("PS-5", "went back from 3 to 1"):
        _leads_with(world, batch(0, 0, pid=PRODUCER + 1))


def test_inv_21_a_transaction_that_nobody_ends(tmp_path):
    world = three(tmp_path)
    _leads_with(world, batch(0, 0, pid=PRODUCER, transactional=True))
    world.commit(1, 2, 3)
    with violates("INV-21", "a transaction that is not decided at 0"):
        world.checker.at_the_end()
