"""In the end everything agrees. What is broken before that is judged as it is: mended, it may look sound."""

import pytest

from replog.client.producing.deliveries import RecordMetadata
from replog.log.errors import LogStorageError
from replog.simulator.history import ProducerSend
from replog.simulator.runtime.process import DEAD
from tests.damage.vocabulary import flip
from tests.leader.replicas import TP, state
from tests.replog.simulator.checks.tiny import TinyWorld, three, violates


def test_inv_21_a_record_is_not_committed(world):
    world.append(1)
    with violates("INV-21", "(LSO, HW, LEO) by broker: {1: (5, 5, 6)"):
        world.checker.at_the_end()


def test_inv_21_a_follower_has_not_heard_that_a_record_is_committed(world):
    world.append(1)
    for broker_id in (2, 3, 2, 3, 2):
        world.fetch(1, broker_id)
    with violates("INV-21", "3: (5, 5, 6)"):
        world.checker.at_the_end()


def test_inv_21_a_live_replica_is_out_of_sync(world):
    world.elect(state(partition_epoch=1, isr=(1, 2)))
    with violates("INV-21", "leader 1, ISR [1, 2] of [1, 2, 3]"):
        world.checker.at_the_end()
    del world.brokers[3]  # nearly
    world.checker.at_the_end()


def test_inv_21_files_that_do_not_hold_what_was_appended(world):
    flip(world.hosted(3).log.segments[0].path, 17)  # the CRC of the first batch
    with violates("INV-21", "broker 3's files hold"):
        world.checker.at_the_end()


def test_inv_21_a_log_that_has_failed_is_no_rest(world):
    log = world.hosted(1).log
    log.directory.joinpath(f"{log.log_end_offset:020d}.log").mkdir()
    with pytest.raises(LogStorageError):
        log.roll()
    with violates("INV-21", "broker-1 serves a log that has failed"):
        world.checker.at_the_end()


NOBODY = state(leader=-1, epoch=1, partition_epoch=1, isr=())


def _with_records_below(world: TinyWorld, *ends: int) -> None:
    """Nobody leads or is in sync, and each broker is back with what its disk has left."""
    world.record(NOBODY)
    for broker_id, end in enumerate(ends, 1):
        world.losses[broker_id] = 1
        world.start(broker_id, f"0:0-{end - 1}")
        world.step(broker_id)


def test_what_is_sound_is_sound_while_brokers_are_dead(world):
    world.checker.before_healing()
    world._processes[2].state = DEAD
    world.checker.before_healing()


@pytest.mark.parametrize(("ends", "is_lost"), [((3, 3, 3), True), ((3, 5, 3), False), ((5, 5, 5), False)])
def test_inv_11_somebody_has_all_that_was_committed_where_nobody_is_in_sync(ends, is_lost, tmp_path):
    world = three(tmp_path, "0:0-4")
    _with_records_below(world, *ends)
    if is_lost:
        with violates("INV-11", "no replica has all that was committed below 5"):
            world.checker.before_healing()
    else:
        world.checker.before_healing()


def test_what_no_step_is_known_to_have_touched_is_looked_at_too(world):
    world.step(2)
    world.hosted(2).log.truncate_fully_and_start_at(9)
    with violates("INV-11", "broker 2's log starts at 9"):
        world.checker.before_healing()


def test_inv_17_clients_are_judged_by_what_they_have_seen_so_far(world):
    for value in (b"one", b"other"):
        send = ProducerSend("producer-1", TP, value, -1, True, 1.0)
        world.history.sends.append(send)
        world.history.acknowledged(send, RecordMetadata(TP.topic, TP.partition, 1, 0), 2.0)
    with violates("INV-17"):
        world.checker.before_healing()
