"""In the end everything agrees: INV-21, broken by hand, and nearly broken."""

import pytest

from replog.log.errors import LogStorageError
from tests.damage.vocabulary import flip
from tests.leader.replicas import state
from tests.replog.simulator.checks.tiny import violates


def test_inv_21_a_record_is_not_committed(world):
    world.append(1)
    with violates("INV-21", "broker 1 has HW 5 and end 6"):
        world.checker.at_the_end()


def test_inv_21_a_follower_has_not_heard_that_a_record_is_committed(world):
    world.append(1)
    for broker_id in (2, 3, 2, 3, 2):
        world.fetch(1, broker_id)
    with violates("INV-21", "broker 3 has HW 5 and end 6"):
        world.checker.at_the_end()


def test_inv_21_a_live_replica_is_out_of_sync(world):
    shrunk = state(partition_epoch=1, isr=(1, 2))
    world.elect(shrunk)
    with violates("INV-21", "the ISR is [1, 2], and [1, 2, 3]"):
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
    with violates("INV-21", "broker 1 serves a log that has failed"):
        world.checker.at_the_end()
