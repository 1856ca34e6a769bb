"""Who must hold what: INV-5, INV-6, INV-7, INV-8, INV-11 and INV-22, broken by hand, and nearly broken."""

from dataclasses import replace

from leader.isr import Committed
from tests.leader.replicas import append_record, state
from tests.replog.simulator.checks.tiny import TinyWorld, three, violates

DEPOSED = state(leader=2, epoch=1, partition_epoch=1, isr=(2,))  # broker 1 was the leader; it has not heard


def _rewrite(world: TinyWorld, broker_id: int, offset: int, epoch: int) -> None:
    """The records from `offset` on become as many of another epoch."""
    log = world.hosted(broker_id).log
    end = log.log_end_offset
    log.truncate_to(offset)
    while log.log_end_offset < end:
        append_record(log, epoch)


def test_inv_5_a_member_of_a_deposed_leaders_isr_lacks_what_that_leader_exposed(world):
    world.record(DEPOSED)
    world.hosted(3).log.truncate_to(3)
    with violates("INV-5", "broker 3", "leader 1 of epoch 0", "below the leader's high watermark 5", "0:0-2"):
        world.step(3)


def test_inv_5_a_replica_that_lost_its_disk_is_excused_and_one_that_was_killed_is_not(tmp_path, world):
    """INV-5: a power loss is told to the controller, and to a leader that hears nothing cannot be."""
    world.record(DEPOSED)
    world.losses[3] = 1
    world.start(3, "0:0-2")
    world.follow(3, DEPOSED)
    assert world.partition.replicas[3].lost_below == 5
    world.start(3, "0:0-1")
    world.follow(3, DEPOSED)
    assert world.partition.replicas[3].lost_below == 5, "it has not copied again what it had once"

    killed = three(tmp_path / "killed", "0:0-4")
    killed.record(DEPOSED)
    killed.start(3, "0:0-2")
    with violates("INV-5", "broker 3"):
        killed.follow(3, DEPOSED)


def test_inv_5_what_is_left_after_a_loss_must_still_be_the_leaders(world):
    """INV-5: the excuse reaches no further than the loss."""
    world.record(DEPOSED)
    world.losses[3] = 1
    world.start(3, "0:0-1", "1:2-2")
    with violates("INV-5", "broker 3", "0:0-1 1:2-2"):
        world.follow(3, DEPOSED)


def test_inv_5_nothing_is_asked_of_a_replica_that_was_taken_from_the_assignment(world):
    """INV-5, nearly: its broker deletes the log before the deposed leader hears of it (CT-17)."""
    world.record(state(leader=2, epoch=1, partition_epoch=1, isr=(1, 2), replicas=(1, 2)))
    world.brokers[3].manager.replicas.hosted.clear()
    world.step(3)
    assert 3 not in world.partition.replicas
    world.record(replace(state(leader=2, epoch=1, partition_epoch=2, isr=(1, 2)), adding=(3,)))
    world.start(3)
    world.follow(3, state(leader=2, epoch=1, partition_epoch=2, isr=(1, 2)))
    assert world.partition.replicas[3].end == 0, "and it is being added again before that leader hears of anything"


def test_inv_6_another_record_in_the_place_of_an_exposed_one(world):
    """INV-6, for a deposed leader"""
    world.record(state(leader=2, epoch=1, partition_epoch=1, isr=(2, 3)))
    world.follower(3).leader_epoch = 1
    _rewrite(world, 3, 4, epoch=1)
    with violates("INV-6", "broker 3", "leader 1 in epoch 0", "0:0-3 1:4-4"):
        world.step(3)


def test_inv_7_the_controller_has_a_member_that_its_leader_does_not_wait_for(world):
    world.leader(1).state = Committed(frozenset({1, 2}))
    with violates("INV-7", "[1, 2]", "[1, 2, 3]"):
        world.step(1)


def test_inv_8_a_member_of_the_isr_ends_below_the_high_watermark(world):
    world.hosted(2).log.truncate_to(4)
    with violates("INV-8", "broker 2", "high watermark 5 of leader 1 in epoch 0"):
        world.step(2)


def test_inv_11_a_member_lacks_what_a_leader_exposed_that_is_dead(world):
    """INV-11: nobody presumes to lead, and what was exposed stays committed."""
    world.start(1, "0:0-4")
    world.hosted(2).log.truncate_to(4)
    with violates("INV-11", "broker 2", "below 5"):
        world.step(2)


def test_a_member_need_not_have_what_lies_below_its_log_start(world):
    """INV-5, INV-6, INV-8, nearly: deleted records."""
    world.partition.highest_start = 5  # a leader's
    world.hosted(2).log.truncate_fully_and_start_at(5)
    world.step(2)


def test_inv_22_an_eligible_leader_lacks_a_record_that_was_exposed(world):
    world.record(replace(state(leader=1, partition_epoch=1, isr=(1,)), elr=(2,)))
    world.hosted(2).log.truncate_to(4)
    with violates("INV-22", "eligible leader 2", "below 5"):
        world.step(2)


def test_nothing_is_asked_of_a_topic_that_was_deleted(world):
    """Its replicas vanish one by one (CT-19)."""
    image = world.image
    partition = world.partition
    image.partitions.clear()
    image.topics.clear()
    image.version += 1
    world.checker.after_step(world.controller)
    assert partition.deleted
    world.hosted(2).log.truncate_to(1)
    world.step(2)
