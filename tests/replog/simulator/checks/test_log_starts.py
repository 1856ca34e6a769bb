"""INV-11 of log starts: what was asked to be deleted, what retention took, and records that are hidden by mistake."""

import pytest

from replog.log.errors import LogStorageError
from replog.log.retention import delete_old_segments
from replog.simulator.history import Deletion, Outcome
from tests.leader.replicas import TP, state
from tests.replog.simulator.checks.tiny import TinyWorld, three, violates

SECOND = state(leader=2, epoch=1, partition_epoch=1, isr=(2, 3))


def _asked(world: TinyWorld, offset: int, outcome: Outcome = Outcome.PENDING) -> None:
    world.history.deletions.append(Deletion("admin-1", TP, offset, 1.0, outcome))


def _delete(world: TinyWorld, leader_id: int, offset: int) -> None:
    leader = world.leader(leader_id)
    leader.delete_records(offset)
    world.step(leader_id)


def test_what_was_asked_for_and_followers_that_take_it_over(world):
    _asked(world, 3)
    _delete(world, 1, 3)
    world.commit(1, 2, 3)
    assert [world.partition.replicas[broker_id].start for broker_id in (1, 2, 3)] == [3, 3, 3]
    assert world.history.committed_deleted == {}


@pytest.mark.parametrize("asked", [None, 3, 5])
def test_inv_11_a_leader_hides_another_record_than_it_was_asked_to(asked, world):
    if asked is not None:
        _asked(world, asked)
    with violates("INV-11", "broker 1's log starts at 4", "behind 0", f"{[] if asked is None else [asked]}"):
        _delete(world, 1, 4)


def test_inv_11_a_deletion_that_certainly_failed(world):
    _asked(world, 4, Outcome.FAILED)
    with violates("INV-11", "starts at 4"):
        _delete(world, 1, 4)


def test_inv_11_a_follower_hides_a_record_that_its_leader_does_not(world):
    """Were it to lead, the record would be lost; that somebody asked for it is no excuse, for it asked the leader."""
    _asked(world, 4)
    _asked(world, -1)
    world.hosted(2).log.maybe_increment_log_start_offset(4)
    with violates("INV-11", "broker 2's log starts at 4", "does not lead"):
        world.step(2)


def test_all_that_is_committed_each_time_that_a_leader_does_it(world):
    """One request of a client: its first try, a copy that comes late, and a retry at a leader that knows less."""
    _asked(world, -1)
    _delete(world, 1, -1)
    assert world.history.committed_deleted == {TP: 5}
    world.append(1, 2)
    world.commit(1, 2, 3)
    _delete(world, 1, -1)
    assert world.history.committed_deleted == {TP: 7}
    world.hosted(2).log.update_high_watermark(6)
    world.step(2)
    world.elect(SECOND)
    _delete(world, 2, -1)
    assert world.history.committed_deleted == {TP: 7}


def test_inv_11_a_leader_asked_for_all_that_is_committed_hides_something_else(world):
    _asked(world, -1)
    with violates("INV-11", "broker 1's log starts at 4", "[-1]"):
        _delete(world, 1, 4)


@pytest.mark.parametrize("retained", [True, False])
def test_what_retention_took_anywhere(retained, tmp_path):
    """Each replica minds it for itself."""
    world = three(tmp_path, "0:0-4", segment_bytes=100, retention_bytes=100)
    log = world.hosted(2).log
    assert delete_old_segments(log, 0) > 0
    if retained:
        world.history.retained[TP.topic] = None
        world.step(2)
        assert world.partition.highest_start == log.segments[0].base_offset > 0
    else:
        with violates("INV-11", f"broker 2's log starts at {log.log_start_offset}"):
            world.step(2)


def test_inv_11_records_that_retention_has_not_taken(world):
    world.history.retained[TP.topic] = None
    world.hosted(2).log.maybe_increment_log_start_offset(3)
    with violates("INV-11", "broker 2's log starts at 3"):
        world.step(2)


def test_inv_11_a_replica_that_comes_back_without_its_first_records(world):
    world.start(2, "0:3-4")
    with violates("INV-11", "broker 2's log starts at 3"):
        world.follow(2, state())


def test_retention_in_the_midst_of_which_the_disk_fails(tmp_path):
    """Files that it could not set aside are no segments any more."""
    world = three(tmp_path, "0:0-4", segment_bytes=100, retention_bytes=100)
    world.history.retained[TP.topic] = None
    log = world.hosted(2).log
    log.segments[0].path.with_suffix(".log.deleted").mkdir()
    with pytest.raises(LogStorageError):
        delete_old_segments(log, 0)
    world.step(2)
    assert world.partition.highest_start == log.log_start_offset == log.segments[0].base_offset > 0


def test_a_replica_that_begins_behind_its_own_end_has_passed_over_what_lies_between(world):
    world.hosted(2).log.truncate_fully_and_start_at(9)
    with violates("INV-11", "broker 2's log starts at 9"):
        world.step(2)
    assert world.history.passed_over == {TP: 9}
