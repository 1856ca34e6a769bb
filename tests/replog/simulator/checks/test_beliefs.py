"""What a leader acts on: ST-7, HW-2, HW-3 and ISR-3, broken by hand, and nearly broken."""

from pathlib import Path

import pytest

from leader.isr import IsrProposal, Pending
from tests.leader.replicas import LAG_MS, append_record, state
from tests.replog.simulator.checks.tiny import TinyWorld, three, violates

SHRUNK = state(partition_epoch=1, isr=(1, 2))


def _believe(world: TinyWorld, replica_id: int, end: int) -> None:
    leader = world.leader(1)
    leader.replicas[replica_id] = leader.replicas[replica_id]._replace(log_end_offset=end)


def test_st_7_a_leader_takes_a_follower_to_have_what_it_was_only_sent(world):
    world.append(1)
    _believe(world, 2, 6)
    append_record(world.leader(1).log, 0)
    with violates("ST-7", "broker 2", "epoch 0", "up to 6"):
        world.step(1)


def test_st_7_nearly_a_follower_in_a_later_epoch_or_incarnation(tmp_path, world):
    """ST-7: it may have truncated what this leader did not commit; and a fetch may come late."""
    world.append(1)
    world.fetch(1, 2)
    world.record(state(leader=3, epoch=1, partition_epoch=1, isr=(3,)))
    world.follow(2, state(leader=3, epoch=1, partition_epoch=1, isr=(3,)))
    world.hosted(2).log.truncate_to(5)
    world.step(2)
    _believe(world, 2, 6)
    append_record(world.leader(1).log, 0)
    world.step(1)

    world = three(tmp_path / "again", "0:0-4")
    world.append(1)
    world.fetch(1, 2)
    world.record(SHRUNK)
    world.register(2, broker_epoch=202)
    world.losses[2] = 1
    world.start(2, "0:0-4")
    world.follow(2, SHRUNK)
    _believe(world, 2, 6)
    append_record(world.leader(1).log, 0)
    world.step(1)


def test_hw_2_records_are_exposed_with_too_few_in_sync(tmp_path):
    world = three(tmp_path, "0:0-4", min_insync_replicas=2)
    leader = world.elect(state(partition_epoch=1, isr=(1,)))
    world.append(1)  # nearly
    assert world.partition.committed_end == 5
    leader.log.maybe_increment_high_watermark(6)
    with violates("HW-2", "exposes up to 6 with [1] in sync; 2 have to be"):
        world.step(1)


def test_hw_3_records_are_exposed_that_a_member_of_the_maximal_isr_does_not_have(world):
    """HW-3, while broker 3 is being added: the controller may have it already (ST-2)."""
    leader = world.elect(SHRUNK)
    leader.state = Pending(frozenset({1, 2}), IsrProposal(0, 1, ((1, 101), (2, 102), (3, 103))), frozenset({3}))
    world.append(1)
    world.fetch(1, 2)
    world.fetch(1, 2)  # nearly
    assert leader.log.high_watermark == 5
    leader.log.maybe_increment_high_watermark(6)
    with violates("HW-3", "exposes up to 6", "broker 3", "to hold 5"):
        world.step(1)


def test_isr_3_a_replica_is_proposed_that_has_not_reached_the_start_of_the_epoch(world):
    world.append(1, 2)
    leader = world.elect(state(epoch=1, partition_epoch=1, isr=(1, 2)))
    for replica_id, end in ((2, 5), (3, 5)):
        _believe(world, replica_id, end)
    leader.state = Pending(frozenset({1, 2}), IsrProposal(1, 1, ((1, 101), (2, 102), (3, 103))), frozenset({3}))
    with violates("ISR-3", "broker 3", "to hold 5", "it needs 7"):
        world.step(1)


def test_one_step_may_raise_a_leaders_high_watermark_and_depose_it(world):
    """INV-10, nearly: after a pause a broker hears many records at once."""
    world.append(1)
    world.fetch(1, 2)
    world.fetch(1, 2)
    third = state(leader=2, epoch=1, partition_epoch=2, isr=(2,))
    world.record(SHRUNK)
    world.record(third)
    world.clock.now_ms += LAG_MS + 1  # broker 3 is no longer waited for as one that may come back (HW-6)
    world.leader(1).become_leader(SHRUNK, 101, world.clock.monotonic_ms())
    assert world.hosted(1).log.high_watermark == 6
    world.follow(1, third)
    assert world.partition.committed_end == 6


def _appended(tmp_path: Path, **settings: int) -> TinyWorld:
    """Two records more, which all have and nobody knows to be committed."""
    world = three(tmp_path, "0:0-4", **settings)
    world.append(1, 2)
    for broker_id in (2, 3):
        world.fetch(1, broker_id)
    return world


@pytest.mark.parametrize("broker_id", [1, 3], ids=["the leader", "a follower"])
def test_lg_18_a_replica_in_sync_has_not_flushed_what_is_exposed(broker_id, tmp_path):
    world = _appended(tmp_path, flush_messages=1)
    path = world.hosted(broker_id).log.segments[-1].path
    size = path.stat().st_size
    world.unflushed[path] = size - 1
    with violates("LG-18", f"broker {broker_id} has not flushed", f"from byte {size - 1} on"):
        world.commit(1, 2, 3)


@pytest.mark.parametrize(
    ("settings", "sound"), [({"flush_messages": 1}, True), ({}, False)], ids=["not exposed", "not asked"]
)
def test_lg_18_what_need_not_be_flushed(settings, sound, tmp_path):
    """LG-18, nearly"""
    world = _appended(tmp_path, **settings)
    path = world.hosted(1).log.segments[-1].path
    world.unflushed[path] = path.stat().st_size if sound else 0
    world.commit(1, 2, 3)
    assert world.hosted(1).log.high_watermark == 7
