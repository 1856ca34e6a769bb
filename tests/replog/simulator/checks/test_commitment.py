"""High watermarks and what they expose: INV-9, INV-10 and INV-11, broken by hand, and nearly broken."""

from dataclasses import replace
from pathlib import Path

import pytest

from replog.log.errors import LogStorageError
from replog.log.offsets import AppendOrigin
from replog.log.retention import delete_old_segments
from replog.metadata.values import NO_LEADER
from replog.simulator.history import Deletion, Outcome
from tests.leader.replicas import TP, state
from tests.replog.log.producers.writes import batch, marker
from tests.replog.simulator.checks.tiny import TinyWorld, alone, three, violates

SECOND = state(leader=2, epoch=1, partition_epoch=1, isr=(2, 3))
UNCLEAN = replace(state(leader=3, epoch=2, partition_epoch=2, isr=(3,)), recovering=True)
NOBODY = replace(state(leader=NO_LEADER, epoch=1, partition_epoch=1, isr=()), last_known_leader=1)


def test_inv_9_a_leaders_high_watermark_goes_back(world):
    world.hosted(1).log.update_high_watermark(4)
    with violates("INV-9", "from 5 to 4"):
        world.step(1)


def test_inv_10_more_than_any_leader_ever_had(world):
    world.append(1)
    world.fetch(1, 2)
    world.hosted(2).log.update_high_watermark(6)
    with violates("INV-10", "follower 2", "6", "more than 5"):
        world.step(2)


def test_inv_10_more_than_the_leader_of_its_epoch_had(world):
    """An earlier leader had as much; this one has not told it yet."""
    for broker_id in (2, 3):
        world.hosted(broker_id).log.update_high_watermark(3)
        world.step(broker_id)
    world.elect(SECOND)
    world.follow(3, SECOND)
    world.hosted(3).log.update_high_watermark(5)
    with violates("INV-10", "follower 3", "rose to 5 in epoch 1", "3 at most"):
        world.step(3)


def test_inv_10_a_high_watermark_before_the_log_below_it_is_validated(world):
    """A push that is believed before any answer of the epoch: consumers would read what is not committed."""
    world.append(1, 2)  # 0:5-6 are nowhere else, and its answer comes too late
    world.elect(SECOND)
    world.append(2, 2)
    world.follow(3, SECOND)
    world.commit(2, 3)
    assert world.partition.committed_end == 7
    world.follow(1, SECOND)
    world.hosted(1).log.update_high_watermark(7)
    with violates("INV-10", "follower 1", "another than", "0:0-6"):
        world.step(1)


def test_inv_11_a_leader_exposes_what_is_not_what_was_committed(world):
    world.append(1, 2)
    world.elect(SECOND)
    world.append(2, 2)
    world.follow(3, SECOND)
    world.commit(2, 3)
    world.hosted(1).log.maybe_increment_high_watermark(7)  # the deposed one's own
    with violates("INV-11", "leader 1 of epoch 0", "0:0-6"):
        world.step(1)


def test_inv_11_a_leader_without_what_was_committed_when_it_was_elected(world):
    """Its broker's log was cut between the election and the news of it."""
    world.record(SECOND)
    world.partition.state = None  # so that only the new leader is looked at
    world.hosted(2).log.truncate_to(4)
    with violates("INV-11", "broker 2 begins to lead in epoch 1", "below 5"):
        world.lead(2, SECOND)


def test_inv_11_a_leader_that_takes_up_its_epoch_late_need_not_have_what_came_after(world):
    """INV-11, nearly: broker 2 was paused when it was elected, and 3 has led since."""
    third = state(leader=3, epoch=2, partition_epoch=2, isr=(1, 3))
    world.record(SECOND)
    world.elect(third)
    world.follow(1, third)
    world.append(3, 2)
    world.commit(3, 1)
    assert world.partition.committed_end == 7
    world.lead(2, SECOND)
    assert world.partition.replicas[2].end == 5


def test_inv_11_an_unclean_election_gives_up_what_the_new_leader_lacks(world):
    """INV-11: it says so (RECOVERING), and from then on only what it kept is committed. What it kept stays so."""
    world.record(state(partition_epoch=1, isr=(1, 2)))
    world.losses[3] = 1
    world.start(3, "0:0-2")
    world.follow(3, state(partition_epoch=1, isr=(1, 2)))
    world.record(replace(state(leader=NO_LEADER, epoch=1, partition_epoch=2, isr=())))
    world.record(replace(UNCLEAN, partition_epoch=3))
    partition = world.partition
    assert (partition.committed_end, str(partition.committed), partition.unclean) == (3, "0:0-2", {2: 3})
    world.lead(3, UNCLEAN)
    world.append(3, 3)
    world.follow(2, UNCLEAN)
    world.append(1)  # nobody has told it yet: what it exposes counts no longer
    assert partition.committed_end == 6
    assert partition.highest == 6
    world.commit(3, 2)
    world.hosted(2).log.truncate_to(2)
    with violates("INV-5", "broker 2"):
        world.step(2)


def elected_by_evidence(world):
    """Broker 1, with three of the five records that are committed."""
    world.checker._asks_all = lambda topic: True
    world.record(NOBODY)
    world.start(1, "0:0-2")
    world.follow(1, NOBODY)
    world.record(replace(state(epoch=2, partition_epoch=2, isr=(1,)), recovering=True))


def test_inv_11_who_is_elected_by_evidence_lacks_what_another_replica_has(world):
    with violates("INV-11", "broker 1 is elected", "below 3", "broker 2 has more"):
        elected_by_evidence(world)


def test_inv_11_what_a_disk_has_lost_since_is_not_expected_of_its_dead_broker(world):
    """INV-11, nearly"""
    world.record(NOBODY)
    world.losses[2] = world.losses[3] = 1
    elected_by_evidence(world)


def test_inv_11_who_is_elected_by_evidence_has_what_all_others_have_left(world):
    """INV-11, nearly"""
    world.record(NOBODY)
    for other in (2, 3):
        world.losses[other] = 1
        world.start(other, "0:0-1")
        world.follow(other, NOBODY)
    elected_by_evidence(world)
    assert world.partition.unclean == {2: 3}


def test_inv_11_an_unclean_election_that_does_not_say_so(world):
    world.record(NOBODY)
    with violates("INV-11", "broker 3, neither in the ISR [] nor eligible []"):
        world.record(replace(UNCLEAN, recovering=False))


def test_what_a_leader_exposes_is_committed_batch_by_batch_whatever_its_log_start(tmp_path):
    world = TinyWorld(tmp_path)
    world.record(state(isr=(1,)))
    world.start(1, "0:7-9").high_watermark = 7
    world.partition.highest_start = 7  # a leader's
    world.lead(1, state(isr=(1,)))
    assert (world.partition.committed_end, str(world.partition.committed)) == (10, "0:7-9")


PRODUCER = 7


def _leads_with(world: TinyWorld, *batches: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    """Broker 1 appends them, alone in the in-sync set: they are committed at once."""
    leader = world.leader(1)
    for data in batches:
        leader.log.append_as_leader(data, leader_epoch=leader.leader_epoch, now_ms=0, origin=origin)
        leader.advance_high_watermark(world.clock.monotonic_ms())
    world.step(1)


def _alone(directory: Path) -> TinyWorld:
    world = alone(directory)
    _leads_with(world, batch(0, 0, 2, pid=PRODUCER, transactional=True))
    return world


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
    with violates("INV-21", "(LSO, HW, LEO) by broker: {1: (0, 1, 1)"):
        world.checker.at_the_end()


def _asked(world: TinyWorld, offset: int, outcome: Outcome = Outcome.PENDING) -> None:
    world.history.deletions.append(Deletion("admin-1", TP, offset, outcome))


def _delete(world: TinyWorld, leader_id: int, offset: int) -> None:
    world.leader(leader_id).delete_records(offset)
    world.step(leader_id)


def test_what_was_asked_for_and_followers_that_take_it_over(world):
    _asked(world, 3)
    _delete(world, 1, 3)
    world.commit(1, 2, 3)
    assert [world.partition.replicas[broker_id].start for broker_id in (1, 2, 3)] == [3, 3, 3]
    assert world.history.committed_deleted == {}


@pytest.mark.parametrize(
    ("asked", "outcome", "told"),
    [
        (None, Outcome.PENDING, "[]"),
        (3, Outcome.PENDING, "[3]"),
        (5, Outcome.PENDING, "[5]"),
        (4, Outcome.FAILED, "[]"),
        (-1, Outcome.PENDING, "[-1]"),  # all that is committed, which is 5
    ],
)
def test_inv_11_a_leader_hides_another_record_than_it_was_asked_to(asked, outcome, told, world):
    if asked is not None:
        _asked(world, asked, outcome)
    with violates("INV-11", "broker 1's log starts at 4", "behind 0", told):
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
